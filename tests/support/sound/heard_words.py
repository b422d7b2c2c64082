"""Sentences to be spoken, and how many of their words are heard."""

from __future__ import annotations

from antiphon.evaluation.round_trip import sample_sentences
from support.sound.speech import normalize_words

SENTENCES = sample_sentences()


def is_heard(said: str, heard: str) -> bool:
    """Return whether a recogniser heard what was said, but for one word at most.

    Which of two likely readings it writes depends on how a processor rounds.
    """
    return word_errors(normalize_words(said), normalize_words(heard)) <= 1


def word_errors(said: list[str], heard: list[str]) -> int:
    """The least number of words to change, leave out and put in."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(heard, 1):
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, diagonal + (word != other))
    return row[-1]
