"""Generations as server-sent events, and their usage in the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from antiphon.server.http.errors import ApiError
from antiphon.server.http.events import DONE, event
from antiphon.server.text.generation import Generations


async def stream_events(
    generations: Generations, chunks: AsyncIterator[dict[str, Any]], log_fields: dict[str, Any]
) -> AsyncIterator[bytes]:
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
        await chunks.aclose()  # type: ignore[attr-defined]


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
