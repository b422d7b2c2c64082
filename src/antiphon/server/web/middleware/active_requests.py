"""`ActiveRequests`: the requests in flight."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

from antiphon.server.web.http.context import RequestContext


class ActiveRequests:
    """Requests that were admitted and have not ended, oldest first."""

    def __init__(self) -> None:
        self._running: set[RequestContext] = set()
        self._per_key: Counter[int | None] = Counter()
        self._left = asyncio.Event()

    def __iter__(self) -> Iterator[RequestContext]:
        return iter(sorted(self._running, key=lambda context: context.started))

    def __len__(self) -> int:
        return len(self._running)

    @property
    def num_of_clients(self) -> int:
        """Number of requests in flight that may need the engine and are not of low priority."""
        return sum(not (context.is_low_priority or context.is_watching) for context in self._running)

    async def until_one_ends(self) -> None:
        await self._left.wait()

    def count_of_key(self, key: int | None) -> int:
        """Return the number of the key's requests in flight that are not of low priority."""
        return self._per_key[key]

    def add(self, context: RequestContext) -> None:
        self._running.add(context)
        if not context.is_low_priority:
            self._per_key[context.key] += 1

    def remove(self, context: RequestContext) -> None:
        if context in self._running:
            self._running.discard(context)
            if not context.is_low_priority:
                self._per_key[context.key] -= 1
            self.wake()

    def wake(self) -> None:
        """Wake all waiting tasks, so that they check again."""
        self._left.set()
        self._left.clear()

    async def until_idle(self, seconds: float) -> bool:
        """Wait until no request is in flight. Return False if that takes longer than `seconds`."""
        deadline = time.monotonic() + seconds
        while self._running:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._left.wait(), left)
            except TimeoutError:
                return False
        return True
