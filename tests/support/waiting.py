"""Wait for a state that another thread or process is about to reach."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TypeVar, overload

T = TypeVar("T")

#: Default timeout in seconds; far longer than any state takes on a busy machine.
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.01


def wait_until(
    condition: Callable[[], T],
    state: str,
    seconds: float = PATIENCE_SECONDS,
    seen: Callable[[], object] | None = None,
) -> T:
    """Wait until `condition` is true and return its value; raise AssertionError after `seconds`.

    `state` completes the sentence "waited for …". The error quotes what `seen` returns, by default the last value of
    `condition`.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_missed(state, seconds, seen() if seen is not None else value))
        time.sleep(POLL_SECONDS)
    return value


@overload
async def wait_until_async(
    condition: Callable[[], Coroutine[object, object, T]],
    state: str,
    seconds: float = ...,
    seen: Callable[[], object] | None = ...,
) -> T: ...


@overload
async def wait_until_async(
    condition: Callable[[], T], state: str, seconds: float = ..., seen: Callable[[], object] | None = ...
) -> T: ...


async def wait_until_async(
    condition: Callable[[], object],
    state: str,
    seconds: float = PATIENCE_SECONDS,
    seen: Callable[[], object] | None = None,
) -> object:
    """Wait as `wait_until` does, without blocking the event loop; `condition` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while not (value := await _awaited(condition())):
        if time.monotonic() >= deadline:
            raise AssertionError(_missed(state, seconds, seen() if seen is not None else value))
        await asyncio.sleep(POLL_SECONDS)
    return value


async def _awaited(value: object) -> object:
    return await value if isinstance(value, Coroutine) else value


def _missed(state: str, seconds: float, seen: object) -> str:
    return f"waited {seconds:g} s for {state}; seen instead: {seen!r}"
