"""What is spoken is understood: transcribed back by Whisper, and its words heard when the captions say."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soxr
from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

from antiphon.runtime.engine import Engine
from antiphon.runtime.speech import SpeechChunk

pytestmark = [pytest.mark.weights, pytest.mark.slow]

SENTENCES = [
    "On March 3rd, 2024, Dr. Smith paid $9.99 for 5 kg of apples.",
    "She read the record twice, and then she decided to record her own reading of it.",
    "The meeting starts at 7:30 pm in room 12, on the third floor.",
    "Is the weather going to be better tomorrow, or should we stay at home?",
    "About 1,250 people live in the village, which is 15 miles from the nearest town.",
    "My brother and I walked along the river until it was completely dark.",
]
SOAK_SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "He was born in 1984 and moved to Chicago in the summer of 2005.",
    "Please send the documents before Friday, or call me back this afternoon.",
    "It costs 50% less than it did ten years ago.",
    "What time does the last train to Boston leave?",
    "I have never seen so many birds in one place.",
    "The temperature fell to minus five degrees during the night.",
    "They object to the plan, because the object of the game is not clear.",
    "We need three eggs, two cups of flour, and a little salt.",
    "Mrs. Johnson lives at the end of the street, next to the library.",
    "Nobody knew why the old man had left without saying a word.",
    "The company sold 2.5 million phones in the first quarter.",
    "If you are tired, close your eyes and breathe slowly.",
    "The museum is open from Tuesday to Sunday, except on holidays.",
    "Could you please repeat the question a little louder?",
    "His grandfather built this house with his own hands.",
    "The results were published in the journal last week.",
    "After the storm, the streets were full of branches and leaves.",
    "She used to play the piano every evening after dinner.",
    "There is a good chance that the project will be finished on time.",
    "The children laughed and ran across the field.",
    "Water boils at one hundred degrees at sea level.",
    "I'd rather have tea than coffee, thank you.",
    "The captain told everyone to remain calm.",
]


@pytest.fixture(scope="module")
def normalize() -> Callable[[str], list[str]]:
    path = Path(__import__("transformers").__file__).parent / "models" / "whisper" / "normalizer.json"
    spelling = json.loads(path.read_text()) if path.exists() else {}
    normalizer = EnglishTextNormalizer(spelling)
    return lambda text: normalizer(text).split()


def word_errors(said: list[str], heard: list[str]) -> int:
    """The least number of words to change, leave out and put in."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, 1):
        diagonal, row[0] = row[0], index
        for place, other in enumerate(heard, 1):
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (word != other))
    return row[-1]


@pytest.fixture(scope="module")
def engine(soak: bool) -> Iterator[Engine]:
    with Engine("hibari-6m", "whisper-base.en", *(["kokoro-82m"] if soak else []), kv_bytes=256 << 20) as engine:
        yield engine


def at_16_khz(chunks: list[SpeechChunk]) -> np.ndarray:
    return soxr.resample(np.concatenate([chunk.samples for chunk in chunks]), chunks[0].rate, 16_000).astype(np.float32)


@pytest.mark.parametrize("model", ["hibari-6m", "kokoro-82m"])
def test_is_transcribed_back(engine: Engine, model: str, soak: bool, normalize: Callable[[str], list[str]]) -> None:
    if model not in engine.models:
        pytest.skip("the large voice is for the soak")
    errors = total = 0
    for sentence in [*SENTENCES, *(SOAK_SENTENCES if soak else [])]:
        sound = at_16_khz(list(engine.speak(sentence, model=model)))
        said, heard = normalize(sentence), normalize(engine.transcribe(sound, model="whisper-base.en").text)
        errors += word_errors(said, heard)
        total += len(said)
    assert errors / total < 0.05


def test_words_are_heard_when_the_captions_say(engine: Engine, soak: bool) -> None:
    distances = []
    for sentence in SENTENCES[1::2] if not soak else [SENTENCES[1], *SOAK_SENTENCES]:
        chunks = list(engine.speak(sentence, model="hibari-6m"))
        ours = [word for chunk in chunks for word in chunk.words]
        theirs = engine.transcribe(at_16_khz(chunks), model="whisper-base.en", words=True).words
        if [_plain(word.text) for word in ours] == [_plain(word.text) for word in theirs]:
            distances += [abs(a.start - b.start) for a, b in zip(ours, theirs, strict=True)]
    assert len(distances) >= 20
    assert np.median(distances) < 0.08


def _plain(word: str) -> str:
    return "".join(c for c in word.lower() if c.isalnum())
