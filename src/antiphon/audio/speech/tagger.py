"""Parts of speech by an averaged perceptron, to choose the reading of words such as "read" or "record".

The weights are data (`tagger.json.gz`), and were trained on the features below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_BEFORE = ("-START2-", "-START-")
_AFTER = ("-END-", "-END2-")
DEFAULT_TAG = "NN"


def _general(word: str) -> str:
    """Return the class of a word, such as years or numbers, else the word in small letters."""
    if "-" in word and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[0].isdigit() else word.lower()


def _shape(word: str) -> str:
    if word.isalpha():
        if word.islower():
            return "x"
        if word.isupper():
            return "XX" if len(word) > 1 else "X1"
        return "Xx" if word[0].isupper() and word[1:].islower() else "xX"
    if word.isdigit():
        return "d"
    return "".join("d" if c.isdigit() else "x" if c.isalpha() else c for c in word[:4])


class Tagger:
    """Tagger of a sentence's words with Penn Treebank tags, from left to right."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self._certain: Mapping[str, str] = model["tagdict"]
        self._tags: Sequence[str] = sorted(model["tags"], reverse=True)
        self._frequent = frozenset(model["vocab"])
        self._weights: Mapping[str, Mapping[str, float]] = model["weights"]

    def __call__(self, words: Sequence[str]) -> list[str]:
        window = [*_BEFORE, *(self._known(word) for word in words), *_AFTER]
        tags: list[str] = []
        earlier, previous = _BEFORE
        for index, word in enumerate(words):
            tag = self._certain.get(word) or self._best(word, window[index : index + 5], index, previous, earlier)
            tags.append(tag)
            earlier, previous = previous, tag
        return tags

    def _known(self, word: str) -> str:
        general = _general(word)
        return general if general in self._frequent else f"<{_shape(word)}>"

    def _best(self, word: str, around: Sequence[str], index: int, previous: str, earlier: str) -> str:
        """Return the tag with the highest score; `around` is the word between two neighbours on each side."""
        features = (
            "b", f"s3={word[-3:]}", f"p1={word[0]}", f"w={around[2]}", f"sh={_shape(word)}", "i+" if index else "i0",
            f"t-1={previous}", f"t-2={earlier}", f"t-12={previous},{earlier}",
            f"w-1={around[1]}", f"s3-1={around[1][-3:]}", f"w-2={around[0]}",
            f"w+1={around[3]}", f"s3+1={around[3][-3:]}", f"w+2={around[4]}",
        )  # fmt: skip
        scores: dict[str, float] = {}
        for feature in features:
            for tag, weight in self._weights.get(feature, {}).items():
                scores[tag] = scores.get(tag, 0.0) + weight
        # With equal scores, take the last tag of the alphabet, as in training.
        return max(self._tags, key=lambda tag: scores.get(tag, 0.0)) if scores else DEFAULT_TAG
