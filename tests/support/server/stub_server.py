"""Scripted HTTP server in a thread of the test's own process, for tests of clients: known answers and known faults."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

#: Element of a body at which the server closes the connection.
CUT = b"\0cut\0"
EVENTS = "text/event-stream"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """Response of a route.

    Each element of `body` is sent as a chunk, unless `size` announces a length, which may be wrong.
    """

    body: Iterable[bytes] = ()
    status: int = 200
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    size: int | None = None


@dataclass
class StubServer:
    url: str
    routes: dict[str, Answer | Callable[[Request], Answer]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    #: Set when a client has closed its connection during an answer.
    client_left: threading.Event = field(default_factory=threading.Event)

    def bodies(self) -> list[Any]:
        return [request.json() for request in self.requests]


def form_of(request: Request) -> list[tuple[str, str | None, bytes]]:
    """Return name, file name and content of each part of a form, read by Python's own MIME parser."""
    head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
    parts = BytesParser(policy=HTTP).parsebytes(head + request.body).iter_parts()  # type: ignore[attr-defined]
    return [
        (part.get_param("name", header="content-disposition"), part.get_filename(), part.get_payload(decode=True))
        for part in parts
    ]


def as_json(content: Any, status: int = 200, **headers: str) -> Answer:
    return Answer([json.dumps(content).encode()], status, headers=headers)


def failure(status: int, message: str, **headers: str) -> Answer:
    """Build an error answer in the format of OpenAI's API."""
    return as_json({"error": {"message": message, "type": "x", "code": "y"}}, status, **headers)


def event(content: Any) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def chat_events(*texts: str, usage: bool = True, done: bool = True) -> list[bytes]:
    """Return the events of a streamed chat answer with these deltas."""
    events = [event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})]
    events += [event({"choices": [{"index": 0, "delta": {"content": text}}]}) for text in texts]
    events.append(event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    if usage:
        details = {"prompt_tokens_details": {"cached_tokens": 2}}
        events.append(event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(texts), **details}}))
    return [*events, b"data: [DONE]\n\n"] if done else events


def streamed(*pieces: bytes) -> Answer:
    return Answer(pieces, content_type=EVENTS)


@contextmanager
def stub_server(
    routes: dict[str, Answer | Callable[[Request], Answer]], tls: tuple[Path, Path] | None = None
) -> Iterator[StubServer]:
    """Run a server until the block ends. `routes` maps paths without query; `tls` is a certificate and its key."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            request = Request(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            stub.requests.append(request)
            route = stub.routes.get(self.path.partition("?")[0])
            if route is None:
                route = Answer([b"<html>nothing here</html>"], 404, "text/html")
            self._answer(route if isinstance(route, Answer) else route(request))

        do_GET = do_DELETE = do_POST  # noqa: N815

        def _answer(self, answer: Answer) -> None:
            self.close_connection = True
            self.send_response(answer.status)
            self.send_header("content-type", answer.content_type)
            for name, value in answer.headers.items():
                self.send_header(name.replace("_", "-"), value)
            if answer.size is None:
                self.send_header("transfer-encoding", "chunked")
            else:
                self.send_header("content-length", str(answer.size))
            self.end_headers()
            try:
                for piece in answer.body:
                    if piece == CUT:
                        return
                    self.wfile.write(piece if answer.size is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                if answer.size is None:
                    self.wfile.write(b"0\r\n\r\n")
            except OSError:
                stub.client_left.set()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    stub = StubServer(f"{scheme}://127.0.0.1:{server.server_port}", dict(routes))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """Yield the URL of a server that sends these bytes to every client after its request, and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with client:
                    client.recv(65536)
                    client.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)
