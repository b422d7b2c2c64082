"""Generations as server-sent events, and their usage in the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from antiphon.runtime.calls.events import TextDelta
from antiphon.runtime.process.messages import Generate
from antiphon.server.http.errors import ApiError
from antiphon.server.http.events import DONE, event
from antiphon.server.parameters.request_schemas import StreamOptions
from antiphon.server.text.generation import Generations


async def stream_events(
    generations: Generations, chunks: AsyncGenerator[dict[str, Any]], log_fields: dict[str, Any]
) -> AsyncGenerator[bytes]:
    """The chunks as events, then `[DONE]`. An error is sent as the last event. Closes the generations."""
    try:
        async for chunk in chunks:
            yield event(chunk)
        yield DONE
    except ApiError as error:
        log_fields["code"] = error.code
        yield event(error.body())
    finally:
        generations.close()
        await chunks.aclose()


class StreamedUsage:
    """The `usage` field of chunks: null before the last one, or with `continuous_usage_stats` the tokens so far."""

    def __init__(self, options: StreamOptions | None, calls: Sequence[Generate]) -> None:
        self.is_asked = options is not None and bool(options.include_usage)
        self._is_continuous = self.is_asked and options is not None and bool(options.continuous_usage_stats)
        self._prompt_tokens = [len(call.prompt) for call in calls for _ in range(call.n)]
        self._output_tokens = [0] * len(self._prompt_tokens)

    def count(self, number: int, event: TextDelta) -> None:
        self._output_tokens[number] += len(event.token_ids)

    def tail(self, number: int) -> dict[str, Any]:
        """What a chunk of that choice has besides the choice."""
        if not self._is_continuous:
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
