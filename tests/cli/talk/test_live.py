"""With a microphone: hands-free, by a key, and Ctrl-C. The devices are fake, the clock is not."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from antiphon.cli.talk.run import Setup, converse
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.session import VoiceSession
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.fake_services import FakeServices, says
from support.waiting import wait_until_async

LOUD, QUIET = np.ones((320, 1), np.float32), np.zeros((320, 1), np.float32)


class FakeMicrophone:
    """`hear` is what the device's thread would call."""

    opened: FakeMicrophone | None = None

    def __init__(self, callback: Callable[..., None], **options: Any) -> None:
        self.hear = callback
        self.is_closed = False
        FakeMicrophone.opened = self

    def start(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("sounddevice")
    module.PortAudioError = type("PortAudioError", (Exception,), {})  # type: ignore[attr-defined]
    module.query_devices = lambda kind: {}  # type: ignore[attr-defined]
    module.InputStream = FakeMicrophone  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    monkeypatch.setattr(FakeMicrophone, "opened", None)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """What is written to it is typed."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield writing


class Live:
    """A conversation in the test's event loop; `screen` is what it has printed so far."""

    def __init__(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_manual: bool, answer: str) -> None:
        self.services = FakeServices(lambda items, settings: says(answer, delay=0.0), speech_delay=0.0)
        turns = TurnSettings(TurnDetection.MANUAL if is_manual else TurnDetection.SERVER_VAD)
        self.settings = VoiceSettings(turns=turns)
        self.setup = Setup(None, tmp_path / "out.wav", is_manual)
        self.screen = ""
        self._capsys = capsys

    async def run(self) -> None:
        async with VoiceSession(self.services, self.settings) as session:
            await converse(session, self.setup)

    async def say(self, block: np.ndarray, until: Callable[[], object]) -> None:
        """Let the microphone hear the block again and again until something holds."""

        def holds() -> object:
            self.screen += self._capsys.readouterr().out
            if found := until():
                return found
            if FakeMicrophone.opened is not None:
                FakeMicrophone.opened.hear(block)
            return None

        await wait_until_async(holds, "what the sound leads to", seen=lambda: self.screen)


@pytest.mark.usefixtures("devices")
def test_push_to_talk(tmp_path: Path, capsys: pytest.CaptureFixture[str], keyboard: int) -> None:
    live = Live(tmp_path, capsys, True, "yes, it is so")

    async def talk() -> None:
        running = asyncio.create_task(live.run())
        await live.say(LOUD, lambda: "Press Enter" in live.screen)
        hearing = live.services.hearings
        assert not hearing or not hearing[0].position  # nothing is heard before the key
        os.write(keyboard, b"\n")
        await live.say(LOUD, lambda: hearing and hearing[0].position >= 1000)
        os.write(keyboard, b"\n")
        await live.say(QUIET, lambda: "first sound" in live.screen)
        os.close(keyboard)
        await running

    asyncio.run(talk())
    assert "You: t1w0" in live.screen and "Antiphon: yes, it is so" in live.screen
    assert FakeMicrophone.opened is not None and FakeMicrophone.opened.is_closed
    assert (tmp_path / "out.wav").stat().st_size > 24_000


@pytest.mark.usefixtures("devices")
def test_ctrl_c_stops_an_answer_and_then_ends_the_conversation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live = Live(tmp_path, capsys, False, "a long answer, " * 50 + "at last")

    async def talk() -> None:
        running = asyncio.create_task(live.run())
        await live.say(LOUD, lambda: live.services.hearings and live.services.hearings[0].position >= 1000)
        await live.say(QUIET, lambda: "Antiphon:" in live.screen)  # all of it is made, and will be heard for a minute
        os.kill(os.getpid(), signal.SIGINT)
        await live.say(QUIET, lambda: "[interrupted]" in live.screen)
        assert not running.done()
        os.kill(os.getpid(), signal.SIGINT)
        await running

    asyncio.run(talk())
    assert FakeMicrophone.opened is not None and FakeMicrophone.opened.is_closed
    assert (tmp_path / "out.wav").exists()
