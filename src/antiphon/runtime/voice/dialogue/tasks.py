"""`Tasks`: the tasks of a session, none of which outlives it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class Tasks:
    """What a task raises is logged: tasks handle the failures that can happen."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a task of a voice session failed", exc_info=task.exception())

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()

    async def ended(self) -> None:
        """Wait until none is left."""
        while self._running:
            await asyncio.wait(self._running)
