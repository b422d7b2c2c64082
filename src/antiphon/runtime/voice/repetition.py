"""`RepetitionDetector`: detects an answer that repeats itself."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

#: Minimum tokens of a repeated block, and the number of copies in a row that end an answer.
BLOCK_TOKENS, NUM_COPIES = 20, 4
#: Maximum tokens of a repeated block.
MAX_BLOCK_TOKENS = 128


class RepetitionDetector:
    """Detector of repetition in the tokens of one answer, as they come.

    An answer repeats itself when its last tokens are four copies of the same block of 20 to 128 tokens. Copies of a
    shorter block count as one long block: a loop of 3 tokens is detected after 80 tokens.
    """

    def __init__(self) -> None:
        periods = np.arange(1, MAX_BLOCK_TOKENS + 1)
        self._wanted = (NUM_COPIES - 1) * np.maximum(periods, BLOCK_TOKENS) + np.maximum(BLOCK_TOKENS - periods, 0)
        self._runs = np.zeros(MAX_BLOCK_TOKENS, np.int64)  # index n: last tokens that equal those n + 1 before
        self._recent = np.full(MAX_BLOCK_TOKENS, -1, np.int64)  # the newest token first

    def push(self, tokens: Iterable[int]) -> bool:
        """Return whether the answer repeats itself after one of these tokens."""
        is_repeating = False
        for token in tokens:
            self._runs = np.where(self._recent == token, self._runs + 1, 0)
            self._recent = np.roll(self._recent, 1)
            self._recent[0] = token
            is_repeating = is_repeating or bool((self._runs >= self._wanted).any())
        return is_repeating
