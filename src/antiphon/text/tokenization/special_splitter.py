"""Splitting of text at control and user-defined tokens, before anything else is matched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property


class SpecialSplitter:
    """A splitter of text at spellings that have an id: leftmost first, the longest if several start at one position.

    A match costs one lookup per distinct length of the spellings that share its first two characters, so thousands of
    spellings cost no more than a few.
    """

    def __init__(self, ids: Mapping[str, int]) -> None:
        self._ids = {text: token_id for text, token_id in ids.items() if text}
        lengths: dict[str, set[int]] = {}
        for text in self._ids:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {prefix: sorted(found, reverse=True) for prefix, found in lengths.items()}
        firsts = "".join(sorted({re.escape(text[0]) for text in self._ids}))
        self._candidate = re.compile(f"[{firsts}]") if firsts else None

    def split(self, text: str) -> Iterator[str | int]:
        """Yield the ids of the tokens found and the non-empty runs of text between them, in order."""
        start = position = 0
        while self._candidate is not None:
            match = self._candidate.search(text, position)
            if match is None:
                break
            at = match.start()
            found = self._longest_at(text, at)
            if found is None:
                position = at + 1
                continue
            if at > start:
                yield text[start:at]
            yield self._ids[found]
            start = position = at + len(found)
        if start < len(text):
            yield text[start:]

    def starts(self, text: str) -> list[int]:
        """Return every position where a spelling begins, including positions inside another spelling."""
        if self._candidate is None:
            return []
        return [
            match.start()
            for match in self._candidate.finditer(text)
            if self._longest_at(text, match.start()) is not None
        ]

    def ends_in_part(self, text: str) -> bool:
        """Return whether the text ends with the beginning of a spelling, which more text could complete."""
        longest = min(len(text), max((lengths[0] for lengths in self._lengths.values()), default=0))
        return any(text[-size:] in self._beginnings for size in range(1, longest))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(text[:size] for text in self._ids for size in range(1, len(text)))

    def _longest_at(self, text: str, at: int) -> str | None:
        for length in self._lengths.get(text[at : at + 2], ()):
            candidate = text[at : at + length]
            if candidate in self._ids:
                return candidate
        single = text[at]
        return single if single in self._ids else None
