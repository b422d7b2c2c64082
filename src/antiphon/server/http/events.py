"""Answers as they are written, one server-sent event at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson

from antiphon.server.http.errors import ApiError
from antiphon.server.text.generation import Generations

DONE = b"data: [DONE]\n\n"


def event(content: Any) -> bytes:
    return b"data: " + orjson.dumps(content) + b"\n\n"


def named_event(name: str, content: Any) -> bytes:
    return b"event: " + name.encode() + b"\n" + event(content)


async def stream_events(
    generations: Generations, chunks: AsyncIterator[dict[str, Any]], figures: dict[str, Any]
) -> AsyncIterator[bytes]:
    """The chunks as events, then `[DONE]`; a failure is an event of its own and the last. Closes the generations."""
    try:
        async for chunk in chunks:
            yield event(chunk)
        yield DONE
    except ApiError as error:
        figures["code"] = error.code
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


def note_usage(figures: dict[str, Any], usage: dict[str, Any]) -> None:
    """For the request's log line."""
    figures["prompt_tokens"] = usage["prompt_tokens"]
    figures["completion_tokens"] = usage["completion_tokens"]
    figures["cached_tokens"] = usage["prompt_tokens_details"]["cached_tokens"]
