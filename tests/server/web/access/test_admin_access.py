"""`/admin` is closed to everything but the holders of a key, and to web pages that use an administrator's browser."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.gate import Gate
from antiphon.server.web.telemetry.metrics import Metrics

TOKEN = "the-token-of-the-server"
HOST = "127.0.0.1:8000"


def verdict(access: AdminAccess, method: str = "POST", **changed: str | None) -> tuple[int, str | None]:
    """Status and code for a request that is right but for what is changed; 200 if it passes."""
    headers: dict[str, str | None] = {
        "host": HOST,
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    pairs = [(name.encode(), value.encode()) for name, value in headers.items() if value is not None]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": "/admin/models/unload", "headers": pairs}
    try:
        access.check(scope)
    except ApiError as error:
        return error.status, error.code
    return 200, None


LOCAL = AdminAccess(KeyRing([TOKEN]), AllowedHosts("127.0.0.1"))
OPEN = AdminAccess(KeyRing([TOKEN]), AllowedHosts("0.0.0.0", ["Antiphon.Example"]))


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, (200, None)),
        ({"host": "localhost:8000"}, (200, None)),
        ({"host": "LOCALHOST"}, (200, None)),
        ({"host": "[::1]:8000"}, (200, None)),
        ({"host": "localhost:9000"}, (200, None)),  # a forwarded port
        ({"content_type": "application/json; charset=utf-8"}, (200, None)),
        ({"origin": f"http://{HOST}"}, (200, None)),
        ({"authorization": None}, (401, "invalid_api_key")),
        ({"authorization": "Bearer wrong-wrong-wrong"}, (401, "invalid_api_key")),
        ({"authorization": f"Basic {TOKEN}"}, (401, "invalid_api_key")),
        ({"host": "evil.example"}, (403, "invalid_host")),
        ({"host": "evil.example:8000"}, (403, "invalid_host")),
        ({"host": "127.0.0.1.evil.example"}, (403, "invalid_host")),
        ({"host": "localhost.evil.example"}, (403, "invalid_host")),
        ({"host": "localhost@evil.example"}, (403, "invalid_host")),
        ({"host": "evil.example#localhost"}, (403, "invalid_host")),
        ({"host": "192.168.1.5:8000"}, (403, "invalid_host")),
        ({"host": ""}, (403, "invalid_host")),
        ({"host": None}, (403, "invalid_host")),
        ({"host": "[::1"}, (403, "invalid_host")),
        ({"origin": "https://evil.example"}, (403, "invalid_origin")),
        ({"origin": "http://localhost:3000"}, (403, "invalid_origin")),
        ({"origin": f"http://{HOST}.evil.example"}, (403, "invalid_origin")),
        ({"origin": "null"}, (403, "invalid_origin")),
        ({"origin": "http://[::1"}, (403, "invalid_origin")),
        ({"content_type": "text/plain"}, (415, "unsupported_media_type")),
        ({"content_type": "application/x-www-form-urlencoded"}, (415, "unsupported_media_type")),
        ({"content_type": "multipart/form-data"}, (415, "unsupported_media_type")),
        ({"content_type": None}, (415, "unsupported_media_type")),
    ],
)  # fmt: skip
def test_requests_to_a_loopback_server(changed: dict[str, str | None], wanted: tuple[int, str | None]) -> None:
    assert verdict(LOCAL, **changed) == wanted


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_methods_without_a_body(method: str) -> None:
    assert verdict(LOCAL, method, content_type=None) == (200, None)
    assert verdict(LOCAL, method, content_type=None, authorization=None)[0] == 401
    assert verdict(LOCAL, method, content_type=None, host="evil.example")[0] == 403
    assert verdict(LOCAL, method, content_type=None, origin="https://evil.example")[0] == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("antiphon.example:8000", 200),
        ("antiphon.example.", 200),
        (socket.gethostname(), 200),
        ("192.168.1.5:8000", 200),  # an address is no name that could be pointed elsewhere
        ("localhost", 200),
        ("other.example", 403),
    ],
)
def test_names_of_a_server_on_every_address(host: str, status: int) -> None:
    assert verdict(OPEN, host=host)[0] == status


def test_without_keys_it_is_off() -> None:
    assert verdict(AdminAccess(None, AllowedHosts("0.0.0.0"))) == (403, "admin_disabled")


def test_a_header_that_is_given_twice_is_not_believed() -> None:
    for name, second in (("host", "evil.example"), ("authorization", "Bearer x"), ("origin", "https://evil.example")):
        pairs = [
            (b"host", HOST.encode()),
            (b"authorization", f"Bearer {TOKEN}".encode()),
            (name.encode(), second.encode()),
        ]
        with pytest.raises(ApiError):
            LOCAL.check({"type": "http", "method": "GET", "headers": pairs})


def test_every_admin_path_passes_the_check() -> None:
    """Also those that do not exist, and other ways to write the prefix do not reach the routes."""
    app = FastAPI()

    @app.get("/admin/secret")
    def secret() -> str:
        return "secret"

    asyncio.run(_try_paths(app))


async def _try_paths(app: FastAPI) -> None:
    gate = Gate(app, Rules(LOCAL, AllowedHosts("127.0.0.1")), ActiveRequests(), Metrics(), lambda: False)
    transport = httpx.ASGITransport(gate)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
        for path in (
            "/admin",
            "/admin/",
            "/admin/secret",
            "/admin/nothing",
            "/admin/../admin/secret",
            "/%61dmin/secret",
        ):
            assert (await client.get(path)).status_code == 401, path
        for path in ("//admin/secret", "/ADMIN/secret", "/admin;/secret"):
            assert (await client.get(path)).status_code in (401, 404), path
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/admin/secret", headers=headers)).json() == "secret"
        headers["origin"] = "https://evil.example"
        assert (await client.get("/admin/secret", headers=headers)).status_code == 403


def test_the_error_of_another_origin_names_no_path() -> None:
    """Deleting a model is administration too."""
    pairs = [(b"host", HOST.encode()), (b"origin", b"https://evil.example")]
    with pytest.raises(ApiError, match="administration accepts requests only from pages of this server"):
        LOCAL.check({"type": "http", "method": "DELETE", "path": "/v1/models/x", "headers": pairs})
