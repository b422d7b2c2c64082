"""Speech at another speed keeps its pitch, its level and the order of its sounds."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.audio.samples import Floats
from antiphon.audio.time_stretch import time_stretched

RATE = 24_000


def tone(frequency: float, seconds: float) -> Floats:
    return (0.5 * np.sin(2 * np.pi * frequency * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


def pitch_of(samples: Floats) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * RATE / len(samples))


@pytest.mark.parametrize("speed", [0.5, 1.1, 2.0, 2.67, 4.0])
def test_the_length_changes_and_the_pitch_stays(speed: float) -> None:
    sound = np.concatenate([tone(220, 0.8), tone(330, 0.8), np.zeros(RATE // 5, np.float32)])
    out = time_stretched(sound, RATE, speed)
    assert len(out) == round(len(sound) / speed) and out.dtype == np.float32
    low, high = (out[round((at + 0.1) * RATE / speed) : round((at + 0.7) * RATE / speed)] for at in (0.0, 0.8))
    assert pitch_of(low) == pytest.approx(220, abs=6) and pitch_of(high) == pytest.approx(330, abs=6)
    for part in (low, high):
        assert np.sqrt(np.mean(part**2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.1)
    assert np.abs(out[round(1.7 * RATE / speed) :]).max() < 0.01


def test_speed_1_and_too_little_sound_stay_as_they_are() -> None:
    sound = tone(220, 0.5)
    assert time_stretched(sound, RATE, 1.0) is sound
    short = sound[:100]
    assert time_stretched(short, RATE, 2.0) is short
    assert not time_stretched(np.zeros(RATE, np.float32), RATE, 3.0).any()
