"""Driver of a session against fake services: pushes sound in real time of the fake clock and checks events."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from antiphon.runtime.voice.services import Echo
from antiphon.runtime.voice.session import VoiceSession
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.fake_services import FakeServices
from support.voice.session_reader import SessionReader

BLOCK_MS = 100


class Driver(SessionReader):
    """Session reader that also pushes sound. On leaving `async with`, the services must have no open calls."""

    def __init__(self, services: FakeServices, settings: VoiceSettings | None = None, echo: Echo | None = None) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(VoiceSession(services, settings or VoiceSettings(), echo=echo, clock=loop.time))
        self.services = services

    async def __aexit__(self, kind: Any, *_: object) -> None:
        await super().__aexit__(kind)
        if kind is None:
            assert not self.services.open_calls, "calls are open"
            assert not self.services.num_prefilling and self.services.most_prefilling <= 1

    async def say(self, milliseconds: int) -> None:
        await self._sound(milliseconds, 1.0)

    async def be_silent(self, milliseconds: int) -> None:
        await self._sound(milliseconds, 0.0)

    async def _sound(self, milliseconds: int, level: float) -> None:
        for _ in range(milliseconds // BLOCK_MS):
            self.session.push(np.full(BLOCK_MS * 16, level, np.float32))
            await asyncio.sleep(BLOCK_MS / 1000)

    async def rest(self, seconds: float = 3.0) -> None:
        """Sleep until all activity has ended."""
        await asyncio.sleep(seconds)

    @property
    def kinds(self) -> list[str]:
        """Names of the events, with repeated deltas merged."""
        names = [type(event).__name__ for event in self.events]
        return [name for index, name in enumerate(names) if not (name.endswith("Delta") and name in names[:index][-2:])]
