"""Speech after and under noise through real weights: nothing lost after the noise, and no loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon import Engine
from antiphon.audio.decode import decode
from support.sound.sounds import Floats, coloured_noise
from support.sound.speech import RATE, librivox_clips, word_error_rate

pytestmark = [pytest.mark.weights, pytest.mark.slow]

MODEL = "whisper-tiny.en"
#: Root mean square of speech after noise: a tenth of the loudest noise.
SPEECH_LEVEL = 0.06


@pytest.fixture(scope="module")
def tiny() -> Iterator[Engine]:
    with Engine(MODEL, kv_bytes=256 << 20, quantize="int8") as engine:
        yield engine


def level(sound: Floats) -> float:
    """The root mean square."""
    return float(np.sqrt((sound.astype(np.float64) ** 2).mean()))


@pytest.mark.parametrize("noise_level", [0.1, 0.3, 0.5])
def test_words_after_long_brown_noise_are_kept(tiny: Engine, noise_level: float) -> None:
    """Speech after 25 s of noise has no more errors than without, and begins where the noise ends."""
    path, text = librivox_clips()[1]
    sound = decode(path, rate=RATE).values
    speech = (sound * SPEECH_LEVEL / level(sound)).astype(np.float32)
    noise = coloured_noise(25.0, exponent=2, level=noise_level, seed=1)
    alone, after = tiny.transcribe_all([speech, np.concatenate([noise, speech])])
    assert word_error_rate(text, after.text) <= word_error_rate(text, alone.text), after.text
    assert abs(after.segments[0].start - 25.0 - alone.segments[0].start) <= 0.5
