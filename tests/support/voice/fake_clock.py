"""Event loop whose clock jumps to the next timer instead of waiting for it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _JumpingSelector(selectors.SelectSelector):
    """Selector that never reports an event: a wait only advances the loop's clock."""

    loop: FakeClockLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits and nothing is scheduled: a deadlock")
        self.loop.now += max(timeout, 0.0)
        return []


class FakeClockLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        selector = _JumpingSelector()
        super().__init__(selector)
        selector.loop = self
        self.now = 1000.0

    def time(self) -> float:
        return getattr(self, "now", 0.0)


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end on its own fake clock; raise if tasks are left over."""
    loop = FakeClockLoop()
    try:
        result = loop.run_until_complete(work)
        left = asyncio.all_tasks(loop)
        assert not left, f"tasks are left: {left}"
        return result
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.close()
