"""`SessionReader`: reads a session's events and checks their order as they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

from antiphon.runtime.voice.events import SessionEvent
from antiphon.runtime.voice.session import VoiceSession
from support.voice.session_order import SessionOrder

Kind = TypeVar("Kind")


class SessionReader:
    """Reader that collects a session's events within `async with`, and closes the session at its end."""

    def __init__(self, session: VoiceSession) -> None:
        self.session = session
        self.events: list[SessionEvent] = []
        self.order = SessionOrder()
        self._changed = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.session.start()
        self._reader = asyncio.get_running_loop().create_task(self._read())
        return self

    async def __aexit__(self, kind: Any, *_: object) -> None:
        await self.session.aclose()
        assert self._reader is not None
        await asyncio.wait([self._reader])
        if kind is None:
            self._reader.result()

    async def _read(self) -> None:
        async for event in self.session:
            self.events.append(event)
            self.order.take(event)
            self._changed.set()

    async def until(self, kind: type[Kind], holds: Callable[[Kind], bool] = lambda event: True, after: int = 0) -> Kind:
        """Wait for an event of this type that `holds`, skipping the first `after` events; past events count."""
        index = after
        while True:
            assert self._reader is not None
            if self._reader.done():
                self._reader.result()
                raise AssertionError(f"the session ended without {kind.__name__}")
            for event in self.events[index:]:
                index += 1
                if isinstance(event, kind) and holds(event):
                    return event
            self._changed.clear()
            await self._changed.wait()

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]
