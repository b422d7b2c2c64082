"""Frames no louder than the room hold no speech, whatever a detector that is still sure of it says."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.audio.room import MIN_FRAMES, RoomLevel
from support.sound.sounds import Floats

FRAME = 512


def frame(level: float, seed: int) -> Floats:
    """Noise of so many decibels."""
    return (10 ** (level / 20) * np.random.default_rng(seed).standard_normal(FRAME)).astype(np.float32)


def voices(*parts: tuple[int, float, float]) -> list[float]:
    """What is found in parts of so many frames, each with its level and the detector's probability."""
    room = RoomLevel()
    given = [(level, probability) for count, level, probability in parts for _ in range(count)]
    return [room.voice(frame(level, seed), probability) for seed, (level, probability) in enumerate(given)]


def test_a_detector_that_lags_is_corrected() -> None:
    assert voices((20, -60, 0.02), (10, -30, 0.99), (5, -60, 0.9)) == [0.02] * 20 + [0.99] * 10 + [0.0] * 5


def test_weak_speech_over_the_room_stays_speech() -> None:
    assert voices((20, -60, 0.0), (10, -30, 1.0), (5, -54, 0.9))[30:] == [0.9] * 5


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([(MIN_FRAMES - 1, -60, 0.0), (10, -30, 1.0), (5, -60, 0.9)], id="too little heard of the room"),
        pytest.param([(20, -45, 0.0), (10, -30, 1.0), (5, -45, 0.9)], id="a loud room"),
        pytest.param([(20, -60, 0.0), (5, -60, 0.9)], id="no louder sound"),
        pytest.param([(40, -30, 1.0), (5, -60, 0.9)], id="a room that was never quiet"),
    ],
)
def test_where_nothing_is_known_the_detector_counts(parts: list[tuple[int, float, float]]) -> None:
    assert voices(*parts)[-5:] == [0.9] * 5


def test_a_room_that_becomes_louder() -> None:
    """Its new level is known once the detector finds no speech in it for as long as the old one was heard."""
    louder = [(20, -60, 0.0), (10, -30, 1.0), (40, -50, 0.0), (10, -30, 1.0), (5, -50, 0.9)]
    assert voices(*louder)[-5:] == [0.0] * 5


def test_silence_and_an_empty_frame() -> None:
    room = RoomLevel()
    for _ in range(30):
        assert room.voice(np.zeros(FRAME, np.float32), 0.0) == 0.0
    assert room.voice(frame(-30, 1), 1.0) == 1.0
    assert room.voice(np.zeros(0, np.float32), 0.6) == 0.0
