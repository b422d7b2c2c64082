"""Requests that the server makes to itself, through the same middleware and routes as requests of clients."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Scope

from antiphon.server.web.http.context import RequestContext

#: Key of `Caller` in an ASGI scope. Clients cannot set it: the HTTP server makes the scopes of connections.
CALLER = "antiphon.caller"


@dataclass(frozen=True)
class Caller:
    """Origin of an internal request: the number of an API key, and whether other requests go first."""

    key: int | None
    is_low_priority: bool = False
    #: Id of the response or transcription that runs in the background.
    background_id: str | None = None


@dataclass(frozen=True)
class InternalAnswer:
    status: int
    request_id: str
    body: Any
    #: Error code; None without an error.
    code: str | None = None
    retry_after: str | None = None


async def call(app: ASGIApp, path: str, body: bytes, caller: Caller) -> InternalAnswer:
    """POST a JSON body to a route of the application. Cancelling this call cancels the request."""
    request_id = uuid.uuid4().hex
    headers = {
        b"host": b"localhost",
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"x-request-id": request_id.encode(),
    }
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers.items()),
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 0),
        CALLER: caller,
    }
    status, retry_after = 500, None
    pieces: list[bytes] = []
    is_read = False

    async def receive() -> Message:
        nonlocal is_read
        if is_read:  # the caller cancels instead of disconnecting
            await asyncio.get_running_loop().create_future()
        is_read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, retry_after
        if message["type"] == "http.response.start":
            status = message["status"]
            retry_after = next((value.decode() for name, value in message["headers"] if name == b"retry-after"), None)
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    context: RequestContext = scope["context"]
    return InternalAnswer(
        status, request_id, orjson.loads(b"".join(pieces)), context.log_fields.get("code"), retry_after
    )
