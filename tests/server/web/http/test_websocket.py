"""WebSockets over the server's own connections: limits before and after the handshake."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from antiphon.server.serving import draining_server
from antiphon.server.web.http import websocket
from antiphon.server.web.http.connection_limits import ConnectionLimits
from antiphon.server.web.http.message_memory import MessageMemory
from antiphon.server.web.http.websocket import BoundedWebSocket
from support.server.asgi_server import serving_app
from support.waiting import wait_until

LIMITS = ConnectionLimits(connections=4)
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """A WebSocket answers with the size of each message, and "flood" with a lot; a request with nothing.

    Messages that begin with "hold" are not handled until the connection ends.
    """
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
        content = message.get("text") or message["bytes"]
        await send({"type": "websocket.send", "text": str(len(content))})
        if "handled" in message and content[:4] != "hold":
            message["handled"]()


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


# -- memory of large messages ---------------------------------------------------------------------------------------

LARGE = 2 * websocket.LARGE_BYTES
HELD = "hold" + "x" * LARGE


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, uvicorn.Server]]:
    """A server with memory for one large message."""
    monkeypatch.setattr(draining_server, "MessageMemory", partial(MessageMemory, 2 * LARGE))
    with serving_app(app, LIMITS) as running:
        yield running


def waiting(server: uvicorn.Server) -> list[BoundedWebSocket]:
    """Connections that are not read."""
    sockets = [found for found in list(server.server_state.connections) if isinstance(found, BoundedWebSocket)]
    return [socket for socket in sockets if socket._is_waiting]


def test_a_large_message_waits_for_the_memory_of_another_connection(little_memory: tuple[int, uvicorn.Server]) -> None:
    port, server = little_memory
    url = f"ws://127.0.0.1:{port}"
    with connect(url, compression=None) as first, connect(url, compression=None) as second:
        for _ in range(3):  # the memory of messages that have been handled is given back
            second.send("x" * LARGE)
            assert second.recv(60) == str(LARGE)
        first.send(HELD)
        assert first.recv(60) == str(len(HELD))
        sender = threading.Thread(target=second.send, args=["x" * LARGE])
        sender.start()
        [connection] = wait_until(lambda: waiting(server), "the second connection to wait")
        connection.loop.call_soon_threadsafe(connection.keepalive_timeout)  # its pong may wait too
        with connect(url, compression=None) as third:
            third.send("small")  # needs no memory
            assert third.recv(60) == "5"
        first.close()
        assert second.recv(60) == str(LARGE)
        sender.join()


def test_a_large_message_waits_until_the_one_before_has_been_handled(
    little_memory: tuple[int, uvicorn.Server],
) -> None:
    port, server = little_memory
    with connect(f"ws://127.0.0.1:{port}", compression=None) as client:
        client.send(HELD)
        assert client.recv(60) == str(len(HELD))
        sender = threading.Thread(target=client.send, args=["x" * LARGE])
        sender.start()
        [connection] = wait_until(lambda: waiting(server), "the connection to wait")
        lease = connection._unhandled
        assert lease is not None and lease.is_granted
        connection.loop.call_soon_threadsafe(connection._handled, lease)
        assert client.recv(60) == str(LARGE)
        sender.join()


def test_a_large_message_that_gets_no_memory_ends_its_connection(
    little_memory: tuple[int, uvicorn.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, _ = little_memory
    monkeypatch.setattr(websocket, "MEMORY_SECONDS", 0.02)
    monkeypatch.setattr(websocket, "MEMORY_POLL_SECONDS", 0.01)
    url = f"ws://127.0.0.1:{port}"
    with connect(url, compression=None) as first, connect(url, compression=None) as second:
        first.send(HELD)
        assert first.recv(60) == str(len(HELD))
        with pytest.raises(ConnectionClosed) as closed:
            second.send("x" * LARGE)
            second.recv(60)
        if closed.value.rcvd is not None:  # a reset may overtake the close frame
            assert closed.value.rcvd.code == 1013 and "of 2 MiB" in closed.value.rcvd.reason
        first.send("x")
        assert first.recv(60) == "1"
