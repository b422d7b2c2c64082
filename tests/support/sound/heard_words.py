"""Sentences to be spoken, and how many of their words are heard."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

#: Numbers, dates, names, questions, and words whose sound depends on their sense.
SENTENCES = [
    "On March 3rd, 2024, Dr. Smith paid $9.99 for 5 kg of apples.",
    "She read the record twice, and then she decided to record her own reading of it.",
    "The meeting starts at 7:30 pm in room 12, on the third floor.",
    "Is the weather going to be better tomorrow, or should we stay at home?",
    "About 1,250 people live in the village, which is 15 miles from the nearest town.",
    "My brother and I walked along the river until it was completely dark.",
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


def normalizer() -> Callable[[str], list[str]]:
    """Words as Whisper's authors compare them."""
    from transformers.models.whisper import english_normalizer

    path = Path(english_normalizer.__file__).parent / "normalizer.json"
    normalize = english_normalizer.EnglishTextNormalizer(json.loads(path.read_text()) if path.exists() else {})
    return lambda text: normalize(text).split()


def word_errors(said: list[str], heard: list[str]) -> int:
    """The least number of words to change, leave out and put in."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, 1):
        diagonal, row[0] = row[0], index
        for place, other in enumerate(heard, 1):
            diagonal, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, diagonal + (word != other))
    return row[-1]
