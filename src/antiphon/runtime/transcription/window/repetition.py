"""Loops of a recogniser: the same few tokens again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Maximum tokens of a repeated phrase; a long sentence has some thirty.
MAX_PERIOD = 40
#: Minimum occurrences of a phrase in a row, and minimum tokens that repeat earlier ones: "no, no, no" is no loop.
MIN_OCCURRENCES, MIN_REPEATED = 3, 6


@dataclass(frozen=True)
class Loop:
    """Tokens `start` to `end`: their first `period` tokens, repeated. The last repetition may be incomplete."""

    start: int
    period: int
    end: int

    @property
    def first_repeated(self) -> int:
        """Index of the first token that repeats an earlier one."""
        return self.start + self.period


def find_loops(tokens: Sequence[int]) -> list[Loop]:
    """Return the loops, in order and disjoint, each with the shortest period."""
    found: list[Loop] = []
    start, count = 0, len(tokens)
    while start < count:
        loop = _loop_at(tokens, start)
        if loop is not None:
            found.append(loop)
        start = start + 1 if loop is None else loop.end
    return found


def _loop_at(tokens: Sequence[int], start: int) -> Loop | None:
    """Return the loop that begins at index `start`, if there is one."""
    for period in range(1, MAX_PERIOD + 1):
        end = start + period
        while end < len(tokens) and tokens[end] == tokens[end - period]:
            end += 1
        if end - start - period >= max(MIN_REPEATED, (MIN_OCCURRENCES - 1) * period):
            return Loop(start, period, end)
    return None
