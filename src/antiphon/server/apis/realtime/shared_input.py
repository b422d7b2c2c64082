"""`SharedInput`: memory for received sound, and worker threads, shared by all sessions of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from antiphon.audio.samples import SPEECH_RATE
from antiphon.server.apis.realtime.input_budget import InputBudget
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.web.http.errors import SERVER

Result = TypeVar("Result")

#: Maximum bytes of sound that all sessions hold together.
MAX_BYTES = 256 << 20
BYTES_PER_SECOND = 4 * SPEECH_RATE
#: Seconds of sound reserved for each session, even if the others hold all the rest.
RESERVED_SECONDS = 8.0
#: Maximum seconds that an append waits for memory before it is rejected.
PATIENCE_SECONDS = 5.0
POLL_SECONDS = 0.1


class SharedInput:
    """Memory and threads for one event loop, and at most `num_sessions` sessions, each with reserved memory."""

    def __init__(
        self, num_sessions: int, max_bytes: int = MAX_BYTES, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._reserved = min(RESERVED_SECONDS, max_bytes / (2 * num_sessions * BYTES_PER_SECOND))
        self._max_seconds = max_bytes / BYTES_PER_SECOND - num_sessions * self._reserved
        self._patience_seconds = patience_seconds
        self._budgets: set[InputBudget] = set()
        self._parser = asyncio.Semaphore(1)
        self._converter = asyncio.Semaphore(1)

    def open(self, budget: InputBudget) -> None:
        """Count a session's sound, until `close`."""
        self._budgets.add(budget)

    def close(self, budget: InputBudget) -> None:
        self._budgets.discard(budget)

    async def reserve(self, budget: InputBudget, seconds: float, *, is_kept: bool) -> None:
        """Count sound in its session's budget, waiting while other sessions hold too much.

        Raises `WireError`, without counting the sound, if it exceeds the session's limit or the wait takes too long.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_seconds
        while True:
            budget.check(seconds, is_kept=is_kept)
            if self._has_room(budget, seconds):
                budget.add(seconds, is_kept=is_kept)
                return
            if loop.time() >= deadline:
                raise self._full(seconds)
            await asyncio.sleep(POLL_SECONDS)

    async def parsed(self, work: Callable[[], Result]) -> Result:
        """Parse a large message in a thread, and return the result.

        Sessions take turns: with more threads, the event loop would get the interpreter lock too rarely.
        """
        async with self._parser:
            return await asyncio.to_thread(work)

    async def converted(self, work: Callable[[], Result]) -> Result:
        """Convert a chunk of sound in another thread, and return the result; sessions take turns here too."""
        async with self._converter:
            return await asyncio.to_thread(work)

    def _has_room(self, budget: InputBudget, seconds: float) -> bool:
        wanted = budget.held + seconds
        if wanted <= self._reserved:
            return True
        others = sum(self._beyond_reserve(other.held) for other in self._budgets if other is not budget)
        return others + self._beyond_reserve(wanted) <= self._max_seconds

    def _beyond_reserve(self, seconds: float) -> float:
        return max(0.0, seconds - self._reserved)

    def _full(self, seconds: float) -> WireError:
        held = sum(budget.held for budget in self._budgets)
        message = (
            f"the sessions of this server hold {held * BYTES_PER_SECOND / 2**20:.0f} MiB of sound, and "
            f"{seconds * BYTES_PER_SECOND / 2**20:.1f} MiB more exceed its limit: send the sound again later, or in "
            "smaller appends"
        )
        return WireError(message, "audio", "memory_busy", SERVER)
