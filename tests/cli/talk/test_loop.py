"""Recordings that are said to a session over a scripted engine, on a clock that jumps."""

from __future__ import annotations

import asyncio
import io
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.audio.samples import Floats
from antiphon.cli.talk.loop import Talk
from antiphon.cli.talk.outputs import RATE, FileOutput
from antiphon.cli.talk.screen import Screen
from antiphon.errors import AudioError, EngineError, InvalidRequestError
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.items import Message, Role
from antiphon.runtime.voice.session import VoiceSession
from antiphon.runtime.voice.settings import VoiceSettings
from support.voice.fake_clock import run
from support.voice.fake_hearing import FakeHearing
from support.voice.fake_services import RATE as VOICE_RATE
from support.voice.fake_services import FakeServices, FakeSynthesis, says, texts

LONG = "one two three four five, " * 4 + "the end"


class AudibleSynthesis(FakeSynthesis):
    """Its sound is not silent, and has the rate of a real one."""

    def _chunk(self, text: str, words: list[str]) -> SpeechChunk:
        chunk = super()._chunk(text, words)
        samples = np.full(len(chunk.samples) * RATE // VOICE_RATE, 0.5, np.float32)
        return replace(chunk, samples=samples, rate=RATE)


def sound(*pieces: tuple[str, float]) -> Floats:
    """Speech and silence of so many seconds, by turns."""
    return np.concatenate([np.full(round(16_000 * seconds), float(kind == "speech")) for kind, seconds in pieces])


class Scene:
    """One conversation; `lines` is what it printed."""

    def __init__(self, path: Path, services: FakeServices | None = None, is_manual: bool = False) -> None:
        self.services = services or FakeServices(lambda items, settings: says("yes, it is so", delay=0.02))
        self.services.synthesis = AudibleSynthesis
        self.path = path
        self.is_manual = is_manual
        self.screen = io.StringIO()
        self.session: VoiceSession | None = None

    def say(self, samples: Floats) -> None:
        run(self._say(samples))

    async def _say(self, samples: Floats) -> None:
        clock = asyncio.get_running_loop().time
        turns = TurnSettings(TurnDetection.MANUAL if self.is_manual else TurnDetection.SERVER_VAD)
        self.session = VoiceSession(self.services, VoiceSettings(turns=turns), clock=clock)
        output = FileOutput(self.path, clock)
        async with self.session:
            talk = Talk(self.session, output, Screen(stream=self.screen), self.is_manual)
            following = asyncio.create_task(talk.follow())
            output.begin()
            try:
                await talk.recording(samples)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                output.close()
        assert not self.services.open_calls

    @property
    def lines(self) -> list[str]:
        return self.screen.getvalue().splitlines()

    def channels(self) -> tuple[Floats, Floats]:
        """What was said and what was answered, as the file has them."""
        with wave.open(str(self.path)) as file:
            assert (file.getframerate(), file.getnchannels()) == (RATE, 2)
            both = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, 2) / 32768
        return both[:, 0].astype(np.float32), both[:, 1].astype(np.float32)


def seconds_of_sound(samples: Floats) -> float:
    return float((np.abs(samples) > 0.1).sum()) / RATE


def test_a_turn(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out.wav")
    scene.say(sound(("speech", 1.0)))
    first, answer, latency = scene.lines
    assert first == "You: t1w0 t1w1 t1w2 t1w3 t1w4" and answer == "Antiphon: yes, it is so"
    assert latency.startswith("  first sound 0.") and latency.endswith("s after the end of speech")
    said, answered = scene.channels()
    assert abs(seconds_of_sound(said) - 1.0) < 0.05
    assert abs(seconds_of_sound(answered) - 4 * 0.4) < 0.05
    # The answer begins where it was heard: after the speech and the silence that ended the turn.
    begin = int(np.flatnonzero(np.abs(answered) > 0.1)[0]) / RATE
    shown = float(latency.split()[2])
    assert abs(begin - (1.0 + shown)) < 0.05


def test_turns_right_after_each_other_are_all_answered(tmp_path: Path) -> None:
    services = FakeServices(lambda items, settings: says("yes, it is so", delay=0.02))
    services.delays.guess = lambda turn: 9.0
    services.delays.transcript = lambda turn: 0.7
    scene = Scene(tmp_path / "out.wav", services)
    scene.say(sound(*[("speech", 0.8), ("silence", 0.6)] * 3))
    assert [line for line in scene.lines if line.startswith("You:")] == [
        f"You: t{turn}w0 t{turn}w1 t{turn}w2 t{turn}w3" for turn in (1, 2, 3)
    ]
    assert scene.lines[-2] == "Antiphon: yes, it is so"
    assert len(texts(services.answers[-1].items)) == 3


def test_speech_interrupts_an_answer_where_it_is_in_the_file(tmp_path: Path) -> None:
    """The second turn begins three seconds after the first has ended; what was not played is not in the file."""
    scripts = iter([LONG, "yes, it is so"])
    scene = Scene(tmp_path / "out.wav", FakeServices(lambda items, settings: says(next(scripts), delay=0.01)))
    scene.say(sound(("speech", 0.8), ("silence", 4.0), ("speech", 0.8), ("silence", 0.5)))
    assert "[interrupted]" in scene.screen.getvalue()
    _, answered = scene.channels()
    begin, cut = np.flatnonzero(np.abs(answered) > 0.1)[0] / RATE, 4.8 + 0.2
    assert seconds_of_sound(answered[: round(cut * RATE) + RATE // 10]) < cut - begin + 0.1
    assert not seconds_of_sound(answered[round((cut + 0.1) * RATE) : round((cut + 0.8) * RATE)])
    assert scene.session is not None
    answers = [item for item in scene.session.items if isinstance(item, Message) and item.role is Role.ASSISTANT]
    assert LONG.startswith(answers[0].text) and 0 < len(answers[0].text) < len(LONG)


def test_a_recording_is_one_turn_with_push_to_talk(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out.wav", is_manual=True)
    scene.say(sound(("speech", 0.8), ("silence", 3.0), ("speech", 0.8)))
    assert [line.split(":")[0] for line in scene.lines[:2]] == ["You", "Antiphon"]
    assert scene.lines[2].endswith("after the request") and len(scene.services.answers) == 1


@pytest.mark.parametrize("is_manual", [False, True])
@pytest.mark.parametrize("seconds", [0.06, 2.0])
def test_silence_is_an_error(tmp_path: Path, is_manual: bool, seconds: float) -> None:
    scene = Scene(tmp_path / "out.wav", is_manual=is_manual)
    with pytest.raises(AudioError, match="no speech was heard"):
        scene.say(sound(("silence", seconds)))
    assert not [line for line in scene.lines if line.startswith("Antiphon")]


@pytest.mark.parametrize("error", [InvalidRequestError("there is no such thing"), EngineError("a step failed")])
def test_an_answer_that_fails_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], error: Exception) -> None:
    scene = Scene(tmp_path / "out.wav", FakeServices(lambda items, settings: says("well", error=error)))
    with pytest.raises(EngineError, match=str(error)):
        scene.say(sound(("speech", 0.8)))
    assert f"there is no answer: {error}" in capsys.readouterr().err


def test_speech_that_the_end_of_the_recording_cuts_off_is_answered(tmp_path: Path) -> None:
    """With a hearing that only begins when the recording has ended, as on a server that loads a model."""
    services = FakeServices(lambda items, settings: says("yes, it is so", delay=0.02))
    opened = services.hear

    async def late(*arguments: Any) -> FakeHearing:
        await asyncio.sleep(30)
        return await opened(*arguments)

    services.hear = late
    scene = Scene(tmp_path / "out.wav", services)
    scene.say(sound(("speech", 0.8), ("silence", 0.1)))
    assert scene.lines[:2] == ["You: t1w0 t1w1 t1w2 t1w3", "Antiphon: yes, it is so"]
