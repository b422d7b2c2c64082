"""Connections that send too much, too slowly, or nothing; and responses that are readable while a body arrives."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from antiphon.server.launch import uvloop_run
from antiphon.server.serving.draining_server import server_settings
from antiphon.server.web.http import protocol
from antiphon.server.web.http.connection_limits import ConnectionLimits, Connections
from antiphon.server.web.http.listener import bind
from support.waiting import wait_until

LIMITS = ConnectionLimits(connections=8, header_bytes=8 << 10, body_rate=1000)
HASTY = ConnectionLimits(header_seconds=0.3, idle_seconds=1)
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


class App:
    """Responds with the size of the body. `/early` has 413 and closes, `/refused` has 401, without reading a body;
    `/held` waits until the client is gone."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.num_gone = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.seen.append(scope)
        size, status, path = 0, 200, scope["path"]
        headers = [(b"connection", b"close")] if path == "/early" else []
        if path in ("/early", "/refused"):
            status = 413 if path == "/early" else 401
        else:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    self.num_gone += 1
                    return
                size += len(message["body"])
                if not message["more_body"] and path != "/held":
                    break
        body = b"%d" % size
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class Running:
    def __init__(self, app: App, port: int, server: uvicorn.Server) -> None:
        self.app, self.port, self.server = app, port, server
        self.url = f"http://127.0.0.1:{port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    @property
    def num_connections(self) -> int:
        return len(self.server.server_state.connections)

    def response(self, *sent: bytes) -> bytes:
        """All that comes back until the server closes the connection."""
        with self.connect() as connection:
            for data in sent:
                connection.sendall(data)
            return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while data := connection.recv(65536):
        parts.append(data)
    return b"".join(parts)


def read_one(connection: socket.socket) -> bytes:
    """One response; the connection stays open."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(4096)
    head, _, body = found.partition(b"\r\n\r\n")
    [length] = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")]
    while len(body) < length:
        body += connection.recv(length - len(body))
    return head + b"\r\n\r\n" + body


def is_closed(connection: socket.socket) -> bool:
    """Waits for the other side to close it; without a response."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@contextmanager
def running(limits: ConnectionLimits) -> Iterator[Running]:
    listener = bind("127.0.0.1", 0)
    app = App()
    server = uvicorn.Server(server_settings(app, limits, 2))  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: uvloop_run(lambda: server.serve([listener])), daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the server to listen")
    try:
        yield Running(app, listener.getsockname()[1], server)
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def hasty() -> Iterator[Running]:
    with running(HASTY) as made:
        yield made


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def error(response: bytes) -> dict[str, Any]:
    """The error of a response that closes the connection, in OpenAI's shape."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    found: dict[str, Any] = json.loads(body)["error"]
    return found


@pytest.mark.parametrize(
    "parts",
    [
        [b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n"],
        [b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n"],
        [b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 300 + b"\r\n"],
        [b"GET / HTTP/1.1\r\n", *[b"X: " + b"a" * 1000 + b"\r\n"] * 9],
        [b"GET / HTTP/1.1\r\nX: ", *[b"a" * 1000] * 9],
        [b"GET / HTTP/1.1\r\n" + b"a" * 9000],
        [CHUNKED, b"1;", *[b"a" * 1000] * 9],
        [CHUNKED + b"1\r\nx\r\n", b"1;", *[b"a" * 1000] * 9],
        [CHUNKED + b"0\r\nX: ", *[b"a" * 1000] * 9],
    ],
    ids=["value", "url", "lines", "headers", "endless", "name", "extension", "second extension", "trailer"],
)
def test_headers_that_are_too_large(server: Running, parts: list[bytes]) -> None:
    response = server.response(*parts)
    assert status(response) == 431
    assert error(response)["code"] == "headers_too_large" and "8,192 bytes" in error(response)["message"]


def test_endless_headers_are_dropped_in_bounded_memory(server: Running) -> None:
    """Hundreds of megabytes: answered after the first kilobytes, then read and dropped, then cut off."""
    sent = 0
    with server.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX: ")
        with pytest.raises(OSError):
            while sent < 1 << 30:
                connection.sendall(b"a" * (1 << 20))
                sent += 1 << 20
    assert sent < protocol.LINGER_BYTES + (64 << 20)
    assert httpx.get(server.url).text == "0"


def test_slow_headers_and_silent_connections(hasty: Running) -> None:
    with hasty.connect() as slow, hasty.connect() as silent, hasty.connect() as empty_lines:
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        empty_lines.sendall(b"\r\n")
        for connection in (slow, empty_lines):
            response = read_all(connection)
            assert status(response) == 408 and "within 0.3 s" in error(response)["message"]
        assert is_closed(silent)


def test_idle_connections_are_closed_and_busy_ones_are_not(hasty: Running) -> None:
    with hasty.connect() as busy:
        busy.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: [scope for scope in hasty.app.seen if scope["path"] == "/held"], "the held request")
        with hasty.connect() as idle:
            idle.sendall(GET)
            assert b"200 OK" in read_one(idle)
            assert is_closed(idle)
        busy.settimeout(0.2)
        with pytest.raises(TimeoutError):
            busy.recv(1)


def test_a_slow_body(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "RATE_SECONDS", 0.2)
    response = server.response(POST % 1000 + b"a")
    assert status(response) == 408 and "less than 1000 bytes per second" in error(response)["message"]
    wait_until(lambda: not server.num_connections, "all connections to close", seen=lambda: server.num_connections)


def test_the_longest_idle_connection_makes_room_and_requests_are_kept(server: Running) -> None:
    wait_until(lambda: not server.num_connections, "all connections to close", seen=lambda: server.num_connections)
    held = []
    for _ in range(7):
        connection = server.connect()
        connection.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        held.append(connection)
    paths = lambda: [scope["path"] for scope in server.app.seen[-7:]]  # noqa: E731
    wait_until(lambda: paths() == ["/held"] * 7, "seven held requests", seen=paths)
    seen = len(server.app.seen)
    with server.connect() as idle:
        idle.sendall(GET)
        assert b"200 OK" in read_one(idle)
        with server.connect() as newcomer:
            newcomer.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
            assert is_closed(idle)
            wait_until(lambda: len(server.app.seen) == seen + 2, "the newcomer's request", seen=lambda: server.app.seen)
            response = server.response(GET)
            assert status(response) == 503 and error(response)["code"] == "too_many_connections"
            assert b"retry-after" in response
    gone = server.app.num_gone
    for connection in held:
        connection.close()
    wait_until(
        lambda: server.app.num_gone >= gone + 7, "seven clients to be gone", seen=lambda: server.app.num_gone - gone
    )
    assert httpx.get(server.url).text == "0"


@pytest.mark.parametrize("path", [b"/early", b"/refused"])
def test_a_response_is_readable_while_a_large_body_arrives(server: Running, path: bytes) -> None:
    """50 MB from a client that sends everything before it reads."""
    size = 50 << 20
    with server.connect() as connection:
        connection.sendall((POST % size).replace(b"/", path, 1))
        for _ in range(50):
            connection.sendall(bytes(1 << 20))
        if path == b"/early":
            assert status(read_all(connection)) == 413
        else:  # and the connection can be used again
            assert status(read_one(connection)) == 401
            connection.sendall(GET)
            assert b"200 OK" in read_one(connection)
    with httpx.Client() as client:
        answer = client.post(f"{server.url}{path.decode()}", content=bytes(size))
        assert answer.status_code in (401, 413)
        chunked = client.post(f"{server.url}{path.decode()}", content=(bytes(1 << 20) for _ in range(50)))
        assert chunked.status_code == answer.status_code


def test_curl_reads_a_response_to_a_large_body(server: Running, tmp_path: Any) -> None:
    (tmp_path / "body").write_bytes(bytes(50 << 20))
    for more in ([], ["-H", "Expect:"], ["-H", "Transfer-Encoding: chunked"]):
        command = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *more, f"{server.url}/early"]
        made = subprocess.run([*command, "--data-binary", f"@{tmp_path}/body"], capture_output=True, text=True)
        assert (made.returncode, made.stdout) == (0, "413"), made.stderr


def test_what_is_not_http(server: Running) -> None:
    lines = (b"\x16\x03\x01\x02\x00\x01", b"hello", b"GET / HTTP/9.9", b"CONNECT a:1 HTTP/1.1")
    for sent in (line + b"\r\n\r\n" for line in lines):
        response = server.response(sent)
        assert status(response) == 400, sent
    for length in (b"-1", b"1x", b"99999999999999999999999"):
        response = server.response(POST.replace(b"%d", length))
        assert status(response) == 400 and error(response)["code"] == "invalid_http"


def test_trailers_are_not_headers(server: Running) -> None:
    seen = len(server.app.seen)
    with server.connect() as connection:
        connection.sendall(CHUNKED + b"1\r\nx\r\n0\r\nAuthorization: Bearer x\r\n\r\n" + GET)
        wait_until(lambda: len(server.app.seen) == seen + 2, "both requests", seen=lambda: server.app.seen)
        assert b"200 OK" in read_one(connection)
    assert not any(name == b"authorization" for scope in server.app.seen for name, _ in scope["headers"])


def test_small_chunks_are_accepted(server: Running) -> None:
    body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(CHUNKED + body)
        assert read_one(connection).endswith(b"\r\n\r\n20000")


def test_an_upgrade_is_answered_as_a_plain_request(server: Running) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"
    response = server.response(GET[:-2] + upgrade, b"frames" * 1000)
    assert status(response) == 200 and b"connection: close" in response


def test_pipelined_requests_are_bounded_and_end_with_their_connection(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(GET * protocol.MAX_PIPELINED)
        found = b""
        while found.count(b"200 OK") < protocol.MAX_PIPELINED:
            found += connection.recv(65536)
    held = GET.replace(b"/", b"/held", 1)
    gone = server.app.num_gone
    response = server.response(held * (protocol.MAX_PIPELINED + 2))
    assert status(response) == 429
    with server.connect() as connection:
        seen = len(server.app.seen)
        connection.sendall(held * 2)
        wait_until(lambda: len(server.app.seen) > seen, "a request")
    wait_until(
        lambda: server.app.num_gone == gone + 2, "two clients to be gone", seen=lambda: server.app.num_gone - gone
    )


def test_connections_evict_the_longest_waiting() -> None:
    class Connection:
        is_evicted = False

        def evict(self) -> None:
            self.is_evicted = True

    pool = Connections(2)
    first, second, third, fourth = (Connection() for _ in range(4))
    assert pool.open(first) and pool.open(second)
    pool.work(first)
    pool.wait(first)
    assert pool.open(third) and second.is_evicted and not first.is_evicted
    pool.close(second)
    pool.work(first)
    pool.work(third)
    assert not pool.open(fourth) and len(pool) == 3
    for connection in (first, third, fourth):
        pool.close(connection)
    assert len(pool) == 0
