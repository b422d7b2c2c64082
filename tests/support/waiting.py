"""Wait for a state that another thread or process is about to reach."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds to wait unless a test says otherwise; far more than any state takes on a busy machine.
PATIENCE_SECONDS = 120.0
POLL_SECONDS = 0.01


def wait_until(
    condition: Callable[[], T],
    state: str,
    seconds: float = PATIENCE_SECONDS,
    seen: Callable[[], object] | None = None,
) -> T:
    """Wait until `condition` is true and return its value; after `seconds`, fail with the state and with what was seen.

    `state` completes the sentence "waited for …". `seen` returns what is there instead; by default, it is the last
    value of `condition`.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_missed(state, seconds, seen() if seen is not None else value))
        time.sleep(POLL_SECONDS)
    return value


async def wait_until_async(
    condition: Callable[[], T],
    state: str,
    seconds: float = PATIENCE_SECONDS,
    seen: Callable[[], object] | None = None,
) -> T:
    """Wait as `wait_until` does, and let the event loop run meanwhile."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise AssertionError(_missed(state, seconds, seen() if seen is not None else value))
        await asyncio.sleep(POLL_SECONDS)
    return value


def _missed(state: str, seconds: float, seen: object) -> str:
    return f"waited {seconds:g} s for {state}; seen instead: {seen!r}"
