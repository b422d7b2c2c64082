"""Channels become mono: their mean, unless they would cancel each other."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.audio.downmix import Downmix
from support.sound.sounds import Floats, chords, noise, silence, tone

RATE = 16_000


def mixed(frames: Floats, step: int | None = None) -> Floats:
    mix = Downmix(len(frames), RATE)
    step = step or frames.shape[1]
    parts = [mix.push(frames[:, start : start + step]) for start in range(0, frames.shape[1], step)]
    return np.concatenate([*parts, mix.finish()])


def level(samples: Floats) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))


@pytest.mark.parametrize("second", ["same", "other", "silent", "half", "quadrature"])
def test_usual_stereo_is_exactly_the_mean(second: str) -> None:
    first = chords(2.0)
    other = {
        "same": first,
        "other": chords(2.0, seed=1),
        "silent": np.zeros_like(first),
        "half": first / 2,
        "quadrature": np.roll(first, 11),
    }[second]
    frames = np.stack([first, other])
    np.testing.assert_array_equal(mixed(frames), frames.mean(axis=0, dtype=np.float32))


@pytest.mark.parametrize("room", [0.0, 0.02])
def test_opposite_channels_add_up(room: float) -> None:
    sound = chords(2.0)
    frames = np.stack([sound + noise(2.0, level=room), noise(2.0, level=room, seed=1) - sound])
    found = mixed(frames)[RATE // 50 :]
    assert abs(float(np.corrcoef(found, sound[RATE // 50 :])[0, 1])) > 0.95
    assert level(found) == pytest.approx(level(sound), rel=0.1)


def test_of_three_channels_the_opposite_one_is_inverted() -> None:
    """Also where the first is silent, and an offset of a channel is no sound."""
    sound = chords(1.0)
    frames = np.stack([silence(1.0), sound + 0.4, -sound - 0.2])
    expected = (2 * sound + 0.6) / 3
    np.testing.assert_allclose(mixed(frames)[RATE // 50 :], expected[RATE // 50 :], atol=1e-6)


def test_a_change_of_phase_on_the_way_is_no_click_and_loses_no_second() -> None:
    sound = tone(4.0, 200.0)
    second = np.where(np.arange(len(sound)) // RATE % 2 == 0, sound, -sound)  # turns over every second
    found = mixed(np.stack([sound, second]))
    steepest = np.abs(np.diff(sound)).max()
    inside = np.ones(len(found) - 1, bool)
    inside[RATE - 1 :: RATE] = False  # the source's own jumps
    assert np.abs(np.diff(found))[inside].max() < 1.5 * steepest
    for second_ in range(4):
        assert level(found[int((second_ + 0.8) * RATE) : (second_ + 1) * RATE]) > 0.9 * level(sound)


@pytest.mark.parametrize("step", [1, 701, 16_000])
def test_the_division_into_chunks_changes_nothing(step: int) -> None:
    sound = chords(0.5)
    frames = np.stack([sound, -sound])
    np.testing.assert_array_equal(mixed(frames, step), mixed(frames))
