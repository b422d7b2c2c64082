"""WebSockets over the server's own connections: limits before and after the handshake."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from antiphon.server.http import websocket
from antiphon.server.http.connection_limits import ConnectionLimits
from support.server.asgi_server import serving_app
from support.waiting import wait_until

LIMITS = ConnectionLimits(connections=4)
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """A WebSocket answers with the size of each message, and "flood" with a lot; a request with nothing."""
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        while message.get("text") == "flood":
            await send({"type": "websocket.send", "bytes": bytes(1 << 20)})
        await send({"type": "websocket.send", "text": str(len(message.get("text") or message["bytes"]))})


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[int, uvicorn.Server]]:
    with serving_app(app, LIMITS) as found:
        yield found


@pytest.fixture
def port(running: tuple[int, uvicorn.Server]) -> int:
    port, server = running
    connections = server.server_state.connections
    wait_until(lambda: not connections, "all connections to close", seen=lambda: connections)
    return port


def raw(port: int, *sent: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    found = []
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for data in sent:
            connection.sendall(data)
        while data := connection.recv(65536):
            found.append(data)
    return b"".join(found)


def test_a_message_may_have_21_mib_and_not_more(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}", compression=None) as client:
        client.send("x" * websocket.MAX_MESSAGE_BYTES)
        assert client.recv(60) == str(websocket.MAX_MESSAGE_BYTES)
        with pytest.raises(ConnectionClosed) as closed:
            client.send("x" * (websocket.MAX_MESSAGE_BYTES + 1))
            client.recv(60)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009  # a reset may overtake the close frame


def test_frames_of_one_message_are_bounded(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}", compression=None) as client:
        client.send(["ab"] * 100)
        assert client.recv(60) == "200"
        with pytest.raises(ConnectionClosed) as closed:
            client.send(["ab"] * (websocket.MAX_FRAMES + 2))
            client.recv(60)
        assert closed.value.rcvd is None or closed.value.rcvd.code == 1009  # a reset may overtake the close frame


def test_connections_are_counted_until_their_websocket_ends(port: int) -> None:
    for _ in range(2 * LIMITS.connections):  # each gives its place back
        with connect(f"ws://127.0.0.1:{port}") as client:
            client.send("x")
            assert client.recv(60) == "1"
    with ExitStack() as clients:
        for _ in range(LIMITS.connections):
            clients.enter_context(connect(f"ws://127.0.0.1:{port}"))
        assert raw(port).startswith(b"HTTP/1.1 503 ")  # before anything was sent


def test_no_compression_is_offered_back(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}", compression="deflate") as client:
        assert client.response is not None and "sec-websocket-extensions" not in client.response.headers


def test_a_ping_is_answered(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}") as client:
        assert client.ping(b"are you there").wait(60)


def test_a_slow_handshake_has_the_timeout_of_headers() -> None:
    with serving_app(app, ConnectionLimits(header_seconds=0.3)) as (port, _):
        assert raw(port, HANDSHAKE[:-4]).startswith(b"HTTP/1.1 408 ")


def test_headers_that_the_library_does_not_read(port: int) -> None:
    """They are within the server's own limit."""
    response = raw(port, HANDSHAKE[:-2] + b"x-long: " + b"y" * 9000 + b"\r\n\r\n")
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ") and json.loads(body)["error"]["code"] == "headers_too_large"


@pytest.mark.parametrize("change", [(b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Key: x")])
def test_a_wrong_handshake_is_refused(port: int, change: tuple[bytes, bytes]) -> None:
    assert raw(port, HANDSHAKE.replace(*change)).startswith(b"HTTP/1.1 400 ")


def test_an_upgrade_behind_another_request_or_with_a_body_is_a_plain_request(port: int) -> None:
    plain = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert raw(port, plain + HANDSHAKE).count(b"HTTP/1.1 200 ") == 2
    with_body = HANDSHAKE[:-2] + b"Content-Length: 3\r\n\r\nabc"
    assert raw(port, with_body).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_never_reads_is_disconnected(
    running: tuple[int, uvicorn.Server], port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "STALL_SECONDS", 0.3)
    flood = bytes([0x81, 0x80 | 5, 0, 0, 0, 0]) + b"flood"  # a text frame, with a mask of zeros
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(HANDSHAKE)
        assert connection.recv(4096).startswith(b"HTTP/1.1 101")
        connection.sendall(flood)
        wait_until(lambda: not running[1].server_state.connections, "the connection to be closed")
