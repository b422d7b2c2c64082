"""Generations as server-sent events, and their usage in the log."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.runtime.process.messages import Generate
from antiphon.server.generation.parameters.request_schemas import StreamOptions
from antiphon.server.generation.text.generation import Generations
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import DONE, event

Chunk = dict[str, Any]
#: Where the text of a chunk goes.
_PLACE = uuid.uuid4().hex


class Chunks(ABC):
    """From the events of generations to the chunks of a stream."""

    @abstractmethod
    def opening(self) -> list[Chunk]:
        """Before the first event."""

    @abstractmethod
    def take(self, number: int, update: TextDelta | Ended) -> list[Chunk]:
        """For an event of the choice of that number."""

    @abstractmethod
    def closing(self) -> list[Chunk]:
        """After the last event."""

    def encoded(self, number: int, update: TextDelta | Ended) -> bytes:
        """`take` as server-sent events."""
        return b"".join(map(event, self.take(number, update)))


class TextEvents:
    """Events of chunks that differ in one text. Each is what `event` gives for its chunk, at less cost."""

    def __init__(self, chunk: Callable[[str], Chunk]) -> None:
        self._head, self._tail = event(chunk(_PLACE)).split(orjson.dumps(_PLACE))

    def event(self, text: str) -> bytes:
        return self._head + orjson.dumps(text) + self._tail


async def stream_events(generations: Generations, chunks: Chunks, log_fields: dict[str, Any]) -> AsyncGenerator[bytes]:
    """The chunks as events, then `[DONE]`. An error is sent as the last event. Closes the generations.

    What came since the last item was sent is one item: a step of the engine is one write, whatever it gave.
    """
    try:
        yield b"".join(map(event, chunks.opening()))
        while batch := await generations.read():
            yield b"".join([chunks.encoded(*numbered) for numbered in batch])
        yield b"".join(map(event, chunks.closing())) + DONE
    except ApiError as error:
        yield last_event(error, log_fields)
    finally:
        generations.close()


async def each_chunk(generations: Generations, chunks: Chunks) -> AsyncGenerator[Chunk]:
    """The chunks one by one."""
    for chunk in chunks.opening():
        yield chunk
    async for number, update in generations.events():
        for chunk in chunks.take(number, update):
            yield chunk
    for chunk in chunks.closing():
        yield chunk


def last_event(error: ApiError, log_fields: dict[str, Any]) -> bytes:
    """The event of an error that ends a stream."""
    log_fields["code"] = error.code
    return event(error.body())


class StreamedUsage:
    """The `usage` field of chunks: null before the last one, or with `continuous_usage_stats` the tokens so far."""

    def __init__(self, options: StreamOptions | None, calls: Sequence[Generate]) -> None:
        self.is_asked = options is not None and bool(options.include_usage)
        self.is_continuous = self.is_asked and options is not None and bool(options.continuous_usage_stats)
        self._prompt_tokens = [len(call.prompt) for call in calls for _ in range(call.n)]
        self._output_tokens = [0] * len(self._prompt_tokens)

    def count(self, number: int, event: TextDelta) -> None:
        self._output_tokens[number] += len(event.token_ids)

    def tail(self, number: int) -> dict[str, Any]:
        """What a chunk of that choice has besides the choice."""
        if not self.is_continuous:
            return {"usage": None} if self.is_asked else {}
        prompt, output = self._prompt_tokens[number], self._output_tokens[number]
        return {"usage": {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}}


@asynccontextmanager
async def closing(generations: Generations) -> AsyncIterator[Generations]:
    try:
        yield generations
    finally:
        generations.close()


def log_usage(log_fields: dict[str, Any], usage: dict[str, Any]) -> None:
    """Add the usage to the request's log line."""
    log_fields["prompt_tokens"] = usage["prompt_tokens"]
    log_fields["completion_tokens"] = usage["completion_tokens"]
    log_fields["cached_tokens"] = usage["prompt_tokens_details"]["cached_tokens"]
    drafts = usage["completion_tokens_details"]
    accepted, rejected = drafts["accepted_prediction_tokens"], drafts["rejected_prediction_tokens"]
    if accepted or rejected:
        log_fields["drafted_tokens"] = accepted + rejected
        log_fields["accepted_tokens"] = accepted
