"""What is spoken is understood: transcribed back by Whisper, and its words heard when the captions say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.evaluation.metrics.speech import align_words, normalizer
from antiphon.evaluation.round_trip import resampled
from antiphon.runtime.frontend.engine import Engine
from support.sound.heard_words import SENTENCES

pytestmark = [pytest.mark.weights, pytest.mark.slow]

VOICES = ["hibari-6m", pytest.param("kokoro-82m", marks=pytest.mark.soak)]
#: Sentences of the short form: one with figures, and two in words alone.
FEW = [SENTENCES[0], SENTENCES[1], SENTENCES[3]]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("whisper-base.en", kv_bytes=256 << 20) as engine:
        yield engine


@pytest.mark.parametrize("voice", VOICES)
def test_is_transcribed_back_with_words_when_the_captions_say(engine: Engine, voice: str, soak: bool) -> None:
    """Where both have the same words, their beginnings differ by less than 80 ms in the median."""
    engine.load(voice)
    normalize = normalizer("en")
    errors = total = 0
    distances = []
    for sentence in SENTENCES if soak else FEW:
        chunks = list(engine.speak(sentence, model=voice))
        sound = resampled(np.concatenate([chunk.samples for chunk in chunks]), chunks[0].rate)
        transcript = engine.transcribe(sound, words=True)
        alignment = align_words(normalize(sentence), normalize(transcript.text))
        errors += alignment.errors
        total += alignment.length
        ours = [word for chunk in chunks for word in chunk.words]
        if [_plain(word.text) for word in ours] == [_plain(word.text) for word in transcript.words]:
            distances += [abs(a.start - b.start) for a, b in zip(ours, transcript.words, strict=True)]
    print(voice, errors, total, len(distances), np.median(distances))
    assert errors / total < 0.05
    assert len(distances) >= 15
    assert np.median(distances) < 0.08


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
