"""Drives a session against the fake services: sound in real time of the fake clock, events checked as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from antiphon.runtime.voice.events import SessionEvent
from antiphon.runtime.voice.services import Echo
from antiphon.runtime.voice.session import VoiceSession
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.fake_services import FakeServices
from support.voice.session_order import SessionOrder

Kind = TypeVar("Kind")
BLOCK_MS = 100


class Driver:
    """`events` are all so far. Within `async with`, at the end of which the session is closed and checked."""

    def __init__(self, services: FakeServices, settings: VoiceSettings | None = None, echo: Echo | None = None) -> None:
        self.services = services
        loop = asyncio.get_running_loop()
        self.session = VoiceSession(services, settings or VoiceSettings(), echo=echo, clock=loop.time)
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
            assert not self.services.open_calls, "calls are open"
            assert not self.services.num_prefilling and self.services.most_prefilling <= 1

    async def _read(self) -> None:
        async for event in self.session:
            self.events.append(event)
            self.order.take(event)
            self._changed.set()

    async def say(self, milliseconds: int) -> None:
        await self._sound(milliseconds, 1.0)

    async def be_silent(self, milliseconds: int) -> None:
        await self._sound(milliseconds, 0.0)

    async def _sound(self, milliseconds: int, level: float) -> None:
        for _ in range(milliseconds // BLOCK_MS):
            self.session.push(np.full(BLOCK_MS * 16, level, np.float32))
            await asyncio.sleep(BLOCK_MS / 1000)

    async def until(self, kind: type[Kind], holds: Callable[[Kind], bool] = lambda event: True) -> Kind:
        """The first such event, past or to come."""
        place = 0
        while True:
            assert self._reader is not None
            if self._reader.done():
                self._reader.result()
                raise AssertionError(f"the session ended without {kind.__name__}")
            for event in self.events[place:]:
                place += 1
                if isinstance(event, kind) and holds(event):
                    return event
            self._changed.clear()
            await self._changed.wait()

    async def rest(self, seconds: float = 3.0) -> None:
        """Let all that goes on come to its end."""
        await asyncio.sleep(seconds)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def kinds(self) -> list[str]:
        """Names of the events, deltas once."""
        names = [type(event).__name__ for event in self.events]
        return [name for place, name in enumerate(names) if not (name.endswith("Delta") and name in names[:place][-2:])]
