"""Merging of neighbours into tokens, best pair first, for SentencePiece and for ranked byte-level BPE."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import AnyStr


def merged(word: AnyStr, priority_of: Callable[[AnyStr], float | None]) -> list[AnyStr]:
    """Merge neighbours, lowest priority first and leftmost on a tie, until no pair is a piece; return the pieces.

    `priority_of` returns None for a text that is not a piece.
    """
    length = len(word)
    # A piece is identified by the index of its first element; `end` is the index after it, or 0 once merged leftwards.
    end = list(range(1, length + 1))
    previous = list(range(-1, length - 1))
    queue = [
        (priority, left, left + 1, left + 2)
        for left in range(length - 1)
        if (priority := priority_of(word[left : left + 2])) is not None
    ]
    heapify(queue)
    while queue:
        _, left, right, stop = heappop(queue)
        if end[left] != right or end[right] != stop:
            continue
        end[left], end[right] = stop, 0
        if stop < length:
            previous[stop] = left
            if (priority := priority_of(word[left : end[stop]])) is not None:
                heappush(queue, (priority, left, stop, end[stop]))
        if left > 0 and (priority := priority_of(word[previous[left] : stop])) is not None:
            heappush(queue, (priority, previous[left], left, stop))
    pieces, start = [], 0
    while start < length:
        pieces.append(word[start : end[start]])
        start = end[start]
    return pieces
