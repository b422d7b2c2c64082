"""WebSockets pass the gate: key, host, origin, limits, draining, log and metrics, over real connections."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import AllowedHosts
from antiphon.server.web.access.keys import KeyRing
from antiphon.server.web.http.connection_limits import SessionLimits
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import unavailable
from antiphon.server.web.middleware.active_requests import ActiveRequests
from antiphon.server.web.middleware.admission import Rules
from antiphon.server.web.middleware.websocket_gate import WebSocketGate
from antiphon.server.web.telemetry.metrics import Metrics
from support.server.asgi_server import serving_app
from support.waiting import wait_until

KEYS = ("first-long-key", "second-long-key")
HOSTS = AllowedHosts("127.0.0.1")


@dataclass
class Gated:
    """An application that repeats what it is sent, behind the gate."""

    rules: Rules
    requests: ActiveRequests = field(default_factory=ActiveRequests)
    metrics: Metrics = field(default_factory=Metrics)
    is_draining: bool = False
    port: int = 0
    loop: asyncio.AbstractEventLoop | None = None

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/nowhere":
            await send({"type": "websocket.close"})
            return
        self.loop = asyncio.get_running_loop()
        context: RequestContext = scope["context"]
        context.last_message = lambda error: json.dumps(error.body())
        assert (await receive())["type"] == "websocket.connect"
        chosen = "realtime" if "realtime" in scope["subprotocols"] else None
        await send({"type": "websocket.accept", "subprotocol": chosen})
        while (message := await receive())["type"] == "websocket.receive":
            if message["text"] == "fail":
                raise ValueError("hidden")
            await send({"type": "websocket.send", "text": message["text"]})

    def connect(self, path: str = "/v1/realtime", **options: Any) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{path}", open_timeout=60, **options)

    def refused(self, **options: Any) -> tuple[int, dict[str, Any], Any]:
        """Status, error and headers of a handshake that fails."""
        with pytest.raises(InvalidStatus) as caught, self.connect(**options):
            pass
        response = caught.value.response
        return response.status_code, json.loads(response.body or b"{}")["error"], response.headers

    def figure(self, name: str) -> float:
        return self.metrics.registry.get_sample_value(f"antiphon:{name}") or 0.0


@contextmanager
def gated(keys: bool = False, **rules: Any) -> Iterator[Gated]:
    made = Gated(Rules(AdminAccess(None, HOSTS), HOSTS, KeyRing(list(KEYS)) if keys else None, **rules))
    gate = WebSocketGate(made.app, made.rules, made.requests, made.metrics, lambda: made.is_draining)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await gate(scope, receive, send)

    with serving_app(app) as (port, _):
        made.port = port
        yield made


@pytest.fixture(scope="module")
def gate_with_keys() -> Iterator[Gated]:
    with gated(keys=True, per_key=2) as made:
        yield made


@pytest.fixture
def locked(gate_with_keys: Gated) -> Gated:
    """Without a session of an earlier test."""
    requests = gate_with_keys.requests
    wait_until(lambda: not len(requests), "all sessions to end", seen=lambda: list(requests))
    return gate_with_keys


@pytest.mark.parametrize(
    "options",
    [
        {"additional_headers": {"Authorization": f"Bearer {KEYS[0]}"}},
        {"additional_headers": {"X-Api-Key": KEYS[1]}},
        {"subprotocols": ["realtime", f"openai-insecure-api-key.{KEYS[0]}"]},
    ],
)
def test_a_key_by_header_or_subprotocol(locked: Gated, options: dict[str, Any]) -> None:
    with locked.connect(**options) as socket:
        socket.send("hello")
        assert socket.recv(60) == "hello"
        assert socket.subprotocol == ("realtime" if "subprotocols" in options else None)
        assert socket.response is not None and socket.response.headers["x-request-id"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"additional_headers": {"Authorization": "Bearer wrong-long-key"}},
        {"subprotocols": ["realtime", "openai-insecure-api-key.wrong-long-key"]},
        {"subprotocols": ["realtime", KEYS[0]]},
    ],
)
def test_a_wrong_key_is_refused_with_our_error(locked: Gated, options: dict[str, Any]) -> None:
    status, error, headers = locked.refused(**options)
    assert status == 401 and error["code"] == "invalid_api_key" and error["type"] == "authentication_error"
    assert headers["www-authenticate"] == "Bearer" and headers["x-request-id"]


def test_sessions_count_for_their_key(locked: Gated) -> None:
    options = {"additional_headers": {"Authorization": f"Bearer {KEYS[0]}"}}
    with locked.connect(**options), locked.connect(**options):
        status, error, headers = locked.refused(**options)
        assert (status, error["code"], headers["retry-after"]) == (429, "too_many_requests", "1")
        with locked.connect(additional_headers={"X-Api-Key": KEYS[1]}):
            pass
    wait_until(lambda: not len(locked.requests), "all sessions to end", seen=lambda: list(locked.requests))
    assert locked.figure("realtime_sessions_open") == 0 and locked.figure("realtime_sessions_total") >= 3


@pytest.mark.parametrize("keys", [False, True])
def test_a_page_of_another_site_is_refused(keys: bool) -> None:
    allowed = "https://app.example"
    headers = {"X-Api-Key": KEYS[0]} if keys else {}
    with gated(keys, origins=(allowed,)) as made:
        for origin in ("https://evil.example", "null", f"http://127.0.0.1:{made.port + 1}"):
            status, error, _ = made.refused(origin=origin, additional_headers=headers)
            assert (status, error["code"]) == (403, "invalid_origin") and origin in error["message"]
        for origin in (allowed, f"http://127.0.0.1:{made.port}", None):
            with made.connect(origin=origin, additional_headers=headers) as socket:
                socket.send("x")
                assert socket.recv(60) == "x"


def test_the_host_is_checked_without_keys() -> None:
    with gated() as made:
        handshake = {
            "Host": "evil.example",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        response = httpx.get(f"http://127.0.0.1:{made.port}/v1/realtime", headers=handshake)
        assert response.status_code == 403 and response.json()["error"]["code"] == "invalid_host"


def test_the_number_of_sessions_is_limited() -> None:
    with gated(sessions=SessionLimits(sessions=1)) as made:
        with made.connect():
            status, error, _ = made.refused()
            assert (status, error["code"]) == (429, "too_many_sessions") and "--max-sessions" in error["message"]
        wait_until(lambda: not len(made.requests), "the session to end", seen=lambda: list(made.requests))
        with made.connect():
            pass


def test_the_length_of_a_session_is_limited_and_not_by_the_limit_of_requests() -> None:
    with gated(sessions=SessionLimits(seconds=0.2), request_seconds=0.0) as made, made.connect() as socket:
        assert json.loads(socket.recv(60))["error"]["code"] == "session_expired"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1008


def test_draining_refuses_new_sessions_and_ends_open_ones() -> None:
    with gated() as made, made.connect() as socket:
        socket.send("x")
        assert socket.recv(60) == "x"
        made.is_draining = True
        status, error, headers = made.refused()
        assert (status, error["code"]) == (503, "shutting_down") and headers["retry-after"]
        [context] = list(made.requests)
        assert made.loop is not None
        made.loop.call_soon_threadsafe(context.end_with, unavailable("the server is shutting down", "shutting_down"))
        assert json.loads(socket.recv(60))["error"]["code"] == "shutting_down"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        wait_until(lambda: not len(made.requests), "the session to end", seen=lambda: list(made.requests))


def test_a_failure_closes_the_session_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "antiphon.server")
    with gated() as made:
        with made.connect(additional_headers={"x-request-id": "my-id"}) as socket:
            socket.send("fail")
            assert json.loads(socket.recv(60))["error"]["code"] == "internal_error"
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(60)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
        assert made.refused(path="/nowhere")[:1] == (404,)
        logged = lambda: [record for record in caplog.records if record.message == "request"]  # noqa: E731
        wait_until(lambda: len(logged()) == 2, "two requests in the log", seen=logged)
    lines = [record.fields for record in logged()]  # type: ignore[attr-defined]
    assert lines[0]["request_id"] == "my-id" and lines[0]["status"] == 101 and lines[0]["code"] == "internal_error"
    assert lines[1]["status"] == 404 and lines[1]["method"] == "WEBSOCKET"
    assert "hidden" not in caplog.text
