"""`EventLog`: the events of a background response, for streams that follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.server.web.http.events import named_event


class EventLog:
    """Encoded events of a response; a follower receives the past events, then new ones as they are generated."""

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._is_over = False
        self._changed = asyncio.Event()
        self.has_begun = asyncio.Event()

    def append(self, event: WireEvent) -> None:
        self._events.append(named_event(event["type"], event))
        self.has_begun.set()
        self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()

    async def follow(self, first: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the events from index `first` on, until the response has ended."""
        while True:
            while first < len(self._events):
                yield self._events[first]
                first += 1
            if self._is_over:
                return
            await self._changed.wait()
