"""The material that transcription is measured with: joined recordings and word error rates."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.audio.decode import decode
from support.sound.speech import (
    JFK_TEXT,
    jfk,
    joined_recording,
    librivox_clips,
    normalize_words,
    silence_share,
    word_error_rate,
)


@pytest.mark.weights
def test_clips() -> None:
    assert decode(jfk()).seconds == 11.0
    clips = librivox_clips()
    assert sum(decode(path).seconds for path, _ in clips) == pytest.approx(24.7, abs=0.1)
    assert clips[1][1] == "he was not an ill disposed young man"


@pytest.mark.weights
def test_a_joined_recording_is_mostly_speech() -> None:
    samples, text = joined_recording(120)
    assert 120 <= len(samples) / 16_000 < 130
    assert silence_share(samples) <= 0.1
    assert 2 < len(normalize_words(text)) / 120 < 4
    np.testing.assert_array_equal(samples, joined_recording(120)[0])
    assert not np.array_equal(samples[:16_000], joined_recording(120, seed=3)[0][:16_000])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Mr. Dash-wood, won't (he)?  He's [music] 21.", "mister dash wood will not he is 21"),
        ("Twenty-one men and one dog, 1,200 and two hundred five", "21 men and one dog 1200 and 205"),
        ("eight of spades, five five, um, three thousand four hundred and six", "8 of spades 5 5 3400 and 6"),
    ],
)
def test_words_are_normalised(text: str, words: str) -> None:
    assert " ".join(normalize_words(text)) == words


def test_word_error_rate() -> None:
    assert word_error_rate(JFK_TEXT, JFK_TEXT.upper().replace(",", "")) == 0.0
    assert word_error_rate("a b c d", "a x c d e") == 0.5
    assert word_error_rate("a b c d", "") == 1.0
    assert word_error_rate("a b", "a b a b") == 1.0
    assert word_error_rate("one two three four", "two three four") == 0.25
