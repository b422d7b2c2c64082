"""Speech after and under noise through real weights: nothing lost after the noise, and no loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon import Engine
from antiphon.audio.decode import decode
from antiphon.runtime.transcription.window.repetition import find_loops
from support.sound.sounds import Floats, coloured_noise
from support.sound.speech import RATE, joined_recording, librivox_clips, normalize_words, word_error_rate

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


def noisy_recording(seconds: float, decibels: float, seed: int) -> Floats:
    """Return sentences in pink noise, with `decibels` as their signal-to-noise ratio."""
    speech, _ = joined_recording(seconds, seed=seed, gap=0.5)
    ratio = 10 ** (-decibels / 20)
    return speech + coloured_noise(len(speech) / RATE, exponent=1, level=level(speech) * ratio, seed=seed)


def repeated_phrases(text: str) -> list[str]:
    """Return phrases that occur at least three times in a row, and make at least six repeated words."""
    words = normalize_words(text)
    return [" ".join(words[loop.start : loop.first_repeated]) for loop in find_loops(words)]


@pytest.mark.parametrize(("decibels", "seed"), [(-8, 1), (-2, 2)])
def test_in_sequence_no_phrase_loops_in_pink_noise(tiny: Engine, decibels: float, seed: int) -> None:
    """The first attempts say "and two hundred and two hundred", and "I must be right with you" again and again."""
    transcript = tiny.transcribe(noisy_recording(30, decibels, seed), sequential=True)
    assert repeated_phrases(transcript.text) == [], transcript.text
    assert transcript.stats.num_fallbacks > 0


def test_translation_in_int8_does_not_loop_in_pink_noise() -> None:
    """The attempt at temperature 0.2 may say "Thank you. Thank you. Thank you"; it is not the transcript."""
    with Engine("whisper-base", kv_bytes=512 << 20, quantize="int8") as engine:
        transcript = engine.transcribe(
            noisy_recording(14, -5, seed=3), language="es", translate=True, temperatures=(0.0, 0.2)
        )
    assert repeated_phrases(transcript.text) == [], transcript.text


def test_sentences_that_a_speaker_repeats_are_kept(tiny: Engine) -> None:
    path, text = librivox_clips()[4]
    transcript = tiny.transcribe(np.tile(decode(path, rate=RATE).values, 5))
    assert word_error_rate(" ".join([text] * 5), transcript.text) <= 0.05
