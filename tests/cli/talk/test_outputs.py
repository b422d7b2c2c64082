"""Where answers go: the positions of a recording, and a speaker."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile

from antiphon.cli.talk.outputs import RATE, FileOutput, Played, SpeakerOutput
from antiphon.errors import AudioError, MissingDependencyError


def tone(seconds: float, level: float = 0.5, rate: int = RATE) -> np.ndarray:
    return np.full(round(seconds * rate), level, np.float32)


def test_a_file_has_answers_where_they_were_played(tmp_path: Path) -> None:
    now = 100.0
    output = FileOutput(tmp_path / "out.wav", lambda: now)
    output.begin()
    output.hear(tone(3.0, 0.25, 16_000))
    now = 101.0
    output.play("a", tone(0.5), RATE)
    output.play("a", tone(0.5), RATE)  # after the first
    now = 101.25
    assert output.is_playing and output.stop() == Played("a", 250)
    assert not output.is_playing and output.stop() is None
    now = 104.0
    output.play("b", tone(0.5, 0.75), RATE)
    output.close()
    sound, rate = soundfile.read(tmp_path / "out.wav")
    assert rate == RATE and sound.shape == (round(4.5 * RATE), 2)
    assert np.abs(sound[RATE : 2 * RATE, 0] - 0.25).max() < 0.01 and not sound[4 * RATE :, 0].any()
    right = sound[:, 1]
    assert not right[:RATE].any() and np.allclose(right[RATE : round(1.25 * RATE)], 0.5, atol=0.001)
    assert not right[round(1.25 * RATE) : 4 * RATE].any() and np.allclose(right[4 * RATE :], 0.75, atol=0.001)


class FakeStream:
    latency = 0.01

    def __init__(self, callback: Any, **options: Any) -> None:
        self.callback = callback

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def block(self, frames: int) -> np.ndarray:
        made = np.ones((frames, 1), np.float32)
        self.callback(made, frames, None, None)
        return made[:, 0]


def fake_sounddevice(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("sounddevice")
    module.PortAudioError = type("PortAudioError", (Exception,), {})  # type: ignore[attr-defined]
    module.query_devices = lambda kind: {}  # type: ignore[attr-defined]
    module.OutputStream = FakeStream  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


def test_a_speaker_plays_blocks_and_says_what_was_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_sounddevice(monkeypatch)
    output = SpeakerOutput()
    output.begin()
    stream: FakeStream = output._stream
    assert not stream.block(100).any() and not output.is_playing
    output.play("a", tone(0.1), RATE)
    output.play("b", tone(0.1), RATE)
    assert (stream.block(RATE // 20) == 0.5).all() and output.is_playing
    assert output.stop() == Played("a", 40)  # 10 ms are still in the device
    assert output.stop() is None and not stream.block(100).any()
    output.play("c", tone(0.1), RATE)
    heard = stream.block(RATE // 5)
    assert heard[: RATE // 10].all() and not heard[RATE // 10 :].any() and not output.is_playing
    output.close()


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake_sounddevice(monkeypatch)

    def none(kind: str) -> None:
        raise module.PortAudioError("Error querying device -1")

    monkeypatch.setattr(module, "query_devices", none)
    with pytest.raises(AudioError, match=r"no speaker was found .* write a file with --output"):
        SpeakerOutput()
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingDependencyError, match="the speaker needs sounddevice"):
        SpeakerOutput()
