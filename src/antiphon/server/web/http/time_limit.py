"""`TimeLimit`: ends a request that takes too long, or makes no progress for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class TimeLimit:
    """Timer that calls `end` once, `seconds` after its creation or its last restart. For one event loop."""

    def __init__(self, seconds: float, end: Callable[[], None]) -> None:
        self._seconds = seconds
        self._end = end
        self._timer = self._start()

    def _start(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._seconds, self._end)

    def restart(self) -> None:
        """Restart the timer, unless it has run out or was cancelled."""
        if not self._timer.cancelled() and self._timer.when() > asyncio.get_running_loop().time():
            self._timer.cancel()
            self._timer = self._start()

    def cancel(self) -> None:
        self._timer.cancel()
