"""Sentences for synthesis, and a count of their words that a recogniser gets right."""

from __future__ import annotations

from antiphon.evaluation.round_trip import sample_sentences
from support.sound.speech import normalize_words

SENTENCES = sample_sentences()


def is_heard(said: str, heard: str) -> bool:
    """Return whether a transcript has at most a word wrong.

    The choice between two likely readings depends on how a processor rounds.
    """
    return word_errors(normalize_words(said), normalize_words(heard)) <= 1


def word_errors(said: list[str], heard: list[str]) -> int:
    """Return the minimum number of words to replace, delete and insert."""
    row = list(range(len(heard) + 1))
    for index, word in enumerate(said, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(heard, 1):
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, diagonal + (word != other))
    return row[-1]
