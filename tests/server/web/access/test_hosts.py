"""Which names a server answers to: a page that points its own name at this machine (DNS rebinding) reads nothing."""

from __future__ import annotations

import socket

import httpx
import pytest

from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.http.errors import ApiError
from support.server.http_server import RunningServer

LOCAL = AllowedHosts("127.0.0.1")
OPEN = AllowedHosts("0.0.0.0", ["api.example"])
ANY = AllowedHosts("127.0.0.1", ["*"])


def allows(hosts: AllowedHosts, host: str) -> bool:
    try:
        hosts.check(host)
    except ApiError as error:
        assert (error.status, error.code) == (403, "invalid_host") and "--allowed-host" in error.message
        return False
    return True


@pytest.mark.parametrize(
    ("host", "local", "everywhere"),
    [
        ("127.0.0.1:8000", True, True),
        ("127.8.8.8", True, True),
        ("[::1]:8000", True, True),
        ("localhost", True, True),
        ("box.localhost:1", True, True),
        (socket.gethostname(), True, True),
        ("192.168.1.5:8000", False, True),
        ("antiphon:8000", False, True),  # a container's name
        ("gpu.local", False, True),
        ("antiphon.default.svc.cluster.local:80", False, True),
        ("api.example:443", False, True),
        ("api.example.evil", False, False),
        ("evil.example", False, False),
        ("evil.example:8000", False, False),
        ("evil.localhost.example", False, False),
        ("127.0.0.1.evil.example", False, False),
        ("127.0.0.1@evil.example", False, False),
        ("127.0.0.1,evil.example", False, False),
        ("a" * 100_000 + ".example", False, False),
        ("[::1", False, False),
        ("", False, False),
    ],
)
def test_names(host: str, local: bool, everywhere: bool) -> None:
    assert (allows(LOCAL, host), allows(OPEN, host), allows(ANY, host)) == (local, everywhere, True)


def test_a_server_without_keys_answers_to_its_own_names_only(server: RunningServer) -> None:
    def get(path: str, host: str) -> httpx.Response:
        return httpx.get(server.url + path, headers={"host": host})

    for path in ("/v1/models", "/metrics", "/openapi.json", "/nothing"):
        refused = get(path, "evil.example")
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "invalid_host"
        assert "'evil.example'" in refused.json()["error"]["message"]
    assert get("/v1/models", "localhost:1234").status_code == 200
    assert get("/livez", "evil.example").status_code == get("/readyz", "evil.example").status_code == 200
    body = {"model": "tiny-chat", "prompt": "hello", "max_tokens": 1}
    posted = httpx.post(server.url + "/v1/completions", json=body, headers={"host": "evil.example"})
    assert posted.status_code == 403
