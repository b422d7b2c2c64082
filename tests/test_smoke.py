"""One real model of each kind in one engine: a question, an embedding, and a spoken sentence that is understood."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import soxr

from antiphon import Engine, SamplingParams
from antiphon.runtime.calls.speech import SpeechChunk

pytestmark = [pytest.mark.weights, pytest.mark.smoke]

CHAT, EMBEDDING, SPEECH, TRANSCRIPTION = "smollm2-135m", "all-minilm-l6-v2", "hibari-6m", "whisper-tiny.en"
SENTENCE = "The weather is nice today, and we are going to the river."


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(CHAT, EMBEDDING, SPEECH, TRANSCRIPTION, kv_bytes=256 << 20) as engine:
        yield engine


@pytest.fixture(scope="module")
def spoken(engine: Engine) -> list[SpeechChunk]:
    return list(engine.speak(SENTENCE, seed=1))


@pytest.mark.long("loads four real models, and fetches those that are not here yet")
def test_a_question_is_answered(engine: Engine) -> None:
    question = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    (answer,) = engine.generate([question], SamplingParams(temperature=0.0, max_tokens=16))
    assert "Paris" in answer.text


def test_a_text_is_nearest_to_its_paraphrase(engine: Engine) -> None:
    texts = ("The cat sleeps on the sofa.", "A kitten is napping on the couch.", "Interest rates rose again in May.")
    asked, paraphrase, other = engine.embed(texts)
    assert asked @ paraphrase > 0.5 > asked @ other + 0.2


def test_a_sentence_is_spoken(spoken: list[SpeechChunk]) -> None:
    assert " ".join(chunk.text for chunk in spoken) == SENTENCE
    assert [word.text for chunk in spoken for word in chunk.words] == SENTENCE.replace(",", "").rstrip(".").split()
    sound = np.concatenate([chunk.samples for chunk in spoken])
    assert 2.0 < len(sound) / spoken[0].rate < 6.0 and np.abs(sound).max() > 0.1


def test_the_spoken_sentence_is_heard(engine: Engine, spoken: list[SpeechChunk]) -> None:
    sound = np.concatenate([chunk.samples for chunk in spoken])
    heard = engine.transcribe(soxr.resample(sound, spoken[0].rate, 16_000)).text.lower()
    assert all(word in heard for word in ("weather", "nice", "today", "going", "river")), heard
