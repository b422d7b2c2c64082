"""What is spoken is understood: transcribed back by Whisper, and its words heard when the captions say."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.evaluation.round_trip import heard, resampled
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.frontend.engine import Engine
from support.sound.heard_words import SENTENCES

pytestmark = [pytest.mark.weights, pytest.mark.slow]

#: Sentences spoken where there is little time.
FEW = 6


@pytest.fixture(scope="module")
def engine(soak: bool) -> Iterator[Engine]:
    with Engine("hibari-6m", "whisper-base.en", *(["kokoro-82m"] if soak else []), kv_bytes=256 << 20) as engine:
        yield engine


def at_16_khz(chunks: list[SpeechChunk]) -> np.ndarray:
    return resampled(np.concatenate([chunk.samples for chunk in chunks]), chunks[0].rate)


@pytest.mark.parametrize("model", ["hibari-6m", "kokoro-82m"])
def test_is_transcribed_back(engine: Engine, model: str, soak: bool) -> None:
    if model not in engine.models:
        pytest.skip("the large voice is for the soak")
    errors = total = 0
    for sentence in SENTENCES if soak else SENTENCES[:FEW]:
        sound = at_16_khz(list(engine.speak(sentence, model=model)))
        words = heard(engine, sound, sentence, model="whisper-base.en").words
        errors += words.errors
        total += words.length
    assert errors / total < 0.05


def test_words_are_heard_when_the_captions_say(engine: Engine, soak: bool) -> None:
    distances = []
    for sentence in SENTENCES[1 : None if soak else FEW : 2]:
        chunks = list(engine.speak(sentence, model="hibari-6m"))
        ours = [word for chunk in chunks for word in chunk.words]
        theirs = engine.transcribe(at_16_khz(chunks), model="whisper-base.en", words=True).words
        if [_plain(word.text) for word in ours] == [_plain(word.text) for word in theirs]:
            distances += [abs(a.start - b.start) for a, b in zip(ours, theirs, strict=True)]
    assert len(distances) >= 20
    assert np.median(distances) < 0.08


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
