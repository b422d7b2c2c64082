"""A page of another site cannot send forms to a server without keys."""

from __future__ import annotations

import httpx
import pytest

from antiphon.server.web.access.origins import check_form_origin
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

FORM = "multipart/form-data; boundary=x"
HOST = "127.0.0.1:8000"


@pytest.mark.parametrize(
    ("kind", "origin", "allowed", "passes"),
    [
        (FORM, "", (), True),
        (FORM, "http://127.0.0.1:8000", (), True),
        (FORM, "http://127.0.0.1:9000", (), False),
        (FORM, "https://hostile.example", (), False),
        (FORM, "null", (), False),
        (FORM, "http://[", (), False),
        ("Multipart/Form-Data", "https://hostile.example", (), False),
        (FORM, "https://page.example", ("https://page.example",), True),
        (FORM, "https://page.example", ("*",), True),
        (FORM, "https://hostile.example", ("https://page.example",), False),
        ("application/json", "https://hostile.example", (), True),  # which a browser asks about first
    ],
)
def test_origins_of_forms(kind: str, origin: str, allowed: tuple[str, ...], passes: bool) -> None:
    if passes:
        check_form_origin(kind, origin, HOST, allowed)
        return
    with pytest.raises(ApiError) as refused:
        check_form_origin(kind, origin, HOST, allowed)
    assert refused.value.status == 403 and refused.value.code == "invalid_origin"


@pytest.mark.parametrize("path", ["/v1/files", "/v1/audio/transcriptions"])
def test_forms_of_other_pages_are_rejected(server: RunningServer, path: str) -> None:
    def status(origin: str) -> int:
        sent = {"files": {"file": ("a", b"{}")}, "data": {"purpose": "batch", "model": "no-such-model"}}
        return httpx.post(server.url + path, headers={"origin": origin}, timeout=60, **sent).status_code  # type: ignore[arg-type]

    assert status("https://hostile.example") == 403
    assert status(server.url) != 403
