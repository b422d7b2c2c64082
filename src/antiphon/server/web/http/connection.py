"""Responses over a connection that the client may close at any time: JSON, and streams of events or bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ClientDisconnectedError

Result = TypeVar("Result")


def json_response(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """Return the work's result, or cancel it and raise `ClientDisconnectedError` if the client disconnects first."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(wait_for_disconnect(request.receive))
    try:
        await _first_of(working, watching)
        if not working.done():
            raise ClientDisconnectedError
        return await working
    finally:
        await _cancel(working, watching)


class EventStream(Response):
    """Response of server-sent events, or bytes of another content type, from an iterator.

    At the end, or when the client disconnects, the iterator is closed and `close` is called.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes],
        close: Callable[[], None],
        media_type: str = "text/event-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        own = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(media_type=media_type, headers={**own, **(headers or {})})
        del self.headers["content-length"]
        self._events = events
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context: RequestContext | None = scope.get("context")
        send_part = context.send_part if context is not None else None
        try:
            await self._stream(receive, send, send_part or send)
        finally:
            self._close()  # an iterator that was never started has not cleaned up

    async def _stream(self, receive: Receive, send: Send, send_part: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send_part))
        watching = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await _first_of(sending, watching)
            if not sending.done():
                raise ClientDisconnectedError
            await sending
        finally:
            await _cancel(sending, watching)

    async def _send(self, send: Send) -> None:
        try:
            async for event in self._events:
                if event:
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._events.aclose()


async def _first_of(*tasks: Awaitable[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
