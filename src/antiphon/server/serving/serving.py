"""`Serving`: what the handlers of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from antiphon.server.chat.spoken_reply_store import SoundStore
from antiphon.server.http.bodies import ClientGoneError
from antiphon.server.http.context import Passages
from antiphon.server.responses.store import ResponseStore
from antiphon.server.serving.models import ServedModels
from antiphon.server.setup.config import ServerConfig
from antiphon.server.telemetry.metrics import Metrics
from antiphon.server.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from antiphon.runtime.client import EngineClient

Result = TypeVar("Result")


class Serving:
    def __init__(self, config: ServerConfig, client: EngineClient) -> None:
        self.config = config
        self.client = client
        self.metrics = Metrics()
        self.models = ServedModels(config, client)
        self.passages = Passages()
        self.responses = ResponseStore(config.limits.stored_responses, config.limits.stored_bytes)
        self.sounds = SoundStore()
        self.tracing = None if config.otlp_endpoint is None else Tracing(config.otlp_endpoint)
        self.is_draining = False


def serving_of(request: Request) -> Serving:
    serving: Serving = request.app.state.serving
    return serving


def json_answer(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_gone(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The work's result. If the client goes away first, the work is cancelled and `ClientGoneError` raised."""
    working = asyncio.create_task(work)
    watching = asyncio.create_task(wait_for_disconnect(request.receive))
    try:
        await _first_of(working, watching)
        if not working.done():
            raise ClientGoneError
        return await working
    finally:
        await _cancel(working, watching)


class EventStream(Response):
    """Server-sent events, or bytes of another kind, from an iterator.

    It is closed and `close` called at the end, or when the client goes away.
    """

    def __init__(
        self,
        events: AsyncIterator[bytes],
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
        try:
            await self._stream(receive, send)
        finally:
            self._close()  # also if the iterator was never begun, and so could not clean up

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        watching = asyncio.create_task(wait_for_disconnect(receive))
        try:
            await _first_of(sending, watching)
            if not sending.done():
                raise ClientGoneError
            await sending
        finally:
            await _cancel(sending, watching)

    async def _send(self, send: Send) -> None:
        try:
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._events.aclose()  # type: ignore[attr-defined]


async def _first_of(*tasks: Awaitable[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
