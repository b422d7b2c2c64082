"""`WireFormat`: how an API writes the answer of one request, and the single path from generations to a response."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any

import orjson
from fastapi import Request, Response

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import LogFields, RequestContext, context_of
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import event

#: JSON object as an API sends it: an event, an answer or a part of one.
WireEvent = dict[str, Any]
#: Placeholder for the text while an event is split around it.
_TEXT = uuid.uuid4().hex


class WireFormat(ABC):
    """State of one answer, whole or as events.

    Call `start`, then `take` or `add` for each event of the engine, then `finish` or `fail`, then `close`. Without a
    stream, call `add`; `whole` then returns the answer.
    """

    media_type = "text/event-stream"
    #: Sent after the last event of a stream that did not fail.
    end = b""

    def start(self) -> Iterable[WireEvent]:
        """Return the events before the first text."""
        return ()

    @abstractmethod
    def take(self, number: int, update: TextDelta | Ended) -> Iterable[WireEvent]:
        """Return the events for a choice's new text or end."""

    def add(self, number: int, update: TextDelta | Ended) -> None:
        """Apply an update without returning its events."""
        _consume(self.take(number, update))

    def finish(self, usage: TokenUsage) -> Iterable[WireEvent]:
        """Return the events after the last text."""
        return ()

    def fail(self, error: ApiError, usage: TokenUsage | None) -> Iterable[WireEvent]:
        """Return the events that end a failed answer, or raise the error for the API's error format."""
        raise error

    @abstractmethod
    async def whole(self) -> WireEvent:
        """Return the complete answer."""

    def close(self) -> None:  # noqa: B027 - most formats hold nothing
        """Release the resources of the answer, however it ended."""

    def encode(self, content: WireEvent) -> bytes:
        return event(content)

    def encoded(self, number: int, update: TextDelta | Ended) -> bytes:
        """Return the events of `take` as bytes."""
        return b"".join(map(self.encode, self.take(number, update)))


class TextEvents:
    """Events that differ only in one text. `event` writes each faster than encoding the whole content."""

    def __init__(self, content: Callable[[str], WireEvent]) -> None:
        self._head, self._tail = event(content(_TEXT)).split(orjson.dumps(_TEXT))

    def event(self, text: str) -> bytes:
        return self._head + orjson.dumps(text) + self._tail


async def respond(request: Request, generations: Generations, wire: WireFormat, is_streamed: bool | None) -> Response:
    """Send the calls and answer: whole, or as a stream, which begins once the engine has accepted the calls."""
    context = context_of(request)
    if not is_streamed:
        return await unless_disconnected(request, _whole(generations, wire, context))
    await unless_disconnected(request, generations.open())
    return EventStream(_stream(generations, wire, context), generations.close, wire.media_type)


async def each_event(generations: Generations, wire: WireFormat, log_fields: LogFields) -> AsyncGenerator[WireEvent]:
    """Yield the events one by one. The caller closes the generations."""
    for content in wire.start():
        yield content
    async for number, update in generations.events():
        for content in wire.take(number, update):
            yield content
    for content in wire.finish(_logged(generations, log_fields)):
        yield content


async def _whole(generations: Generations, wire: WireFormat, context: RequestContext) -> Response:
    try:
        await generations.open()
        _consume(wire.start())
        try:
            async for number, update in generations.events():
                wire.add(number, update)
            _consume(wire.finish(_logged(generations, context.log_fields)))
        except ApiError as error:
            _consume(_failed(generations, wire, context, error))
        return json_response(await wire.whole())
    finally:
        generations.close()
        wire.close()


async def _stream(generations: Generations, wire: WireFormat, context: RequestContext) -> AsyncGenerator[bytes]:
    """Yield the events as bytes. An error is the last event.

    All events since the last item form one item, so that each step of the engine is one write.
    """
    try:
        try:
            yield b"".join(map(wire.encode, wire.start()))
            while batch := await generations.read():
                yield b"".join([wire.encoded(*numbered) for numbered in batch])
            last = wire.finish(_logged(generations, context.log_fields))
            yield b"".join(map(wire.encode, last)) + wire.end
        except ApiError as error:
            yield b"".join(map(wire.encode, _failed(generations, wire, context, error)))
    except ApiError as error:
        yield context.error_format.event(error, context.request_id)
    finally:
        generations.close()
        wire.close()


def _failed(
    generations: Generations, wire: WireFormat, context: RequestContext, error: ApiError
) -> Iterable[WireEvent]:
    context.log_fields["code"] = error.code
    usage = _logged(generations, context.log_fields) if generations.has_ended else None
    return wire.fail(error, usage)


def _logged(generations: Generations, log_fields: LogFields) -> TokenUsage:
    usage = generations.usage()
    usage.log(log_fields)
    return usage


def _consume(events: Iterable[WireEvent]) -> None:
    for _ in events:
        pass
