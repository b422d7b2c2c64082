"""Bootstrap intervals of a corpus score, and permutation tests of two scores on the same items."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from antiphon.errors import InvalidRequestError

Rows = NDArray[np.float64]
#: Score computed from the rows of items, in any order.
Statistic = Callable[[Rows], float]

ROUNDS = 1000
PAIRED_ROUNDS = 10_000
LEVEL = 0.95
#: Maximum gap between equal differences: sums of the same numbers in another order round differently.
EQUAL = 1e-12


def mean(rows: Rows) -> float:
    """Return the mean of rows of one number each."""
    return float(rows.mean()) if rows.size else math.nan


def ratio_of_sums(rows: Rows) -> float:
    """Return the sum of the first column divided by that of the second; if that is 0, undivided (as in `jiwer`)."""
    above, below = rows.sum(axis=0)
    return float(above / below) if below else float(above)


@dataclass(frozen=True)
class Score:
    """Metric over a corpus: its value, the values of its items, and the rows that the value is computed from.

    The value of many metrics (BLEU, WER) is not the mean of the items' values. It is `statistic(rows)`, and the value
    of a corpus of other items is the statistic of their rows.
    """

    value: float
    items: list[float]
    rows: Rows
    statistic: Statistic

    @classmethod
    def of_rows(cls, rows: ArrayLike, statistic: Statistic, items: Sequence[float]) -> Score:
        rows = _as_rows(rows)
        return cls(statistic(rows), list(items), rows, statistic)

    @classmethod
    def of_items(cls, items: Sequence[float]) -> Score:
        return cls.of_rows(items, mean, items)


def bootstrap_interval(
    scores: ArrayLike, statistic: Statistic = mean, rounds: int = ROUNDS, seed: int = 0, level: float = LEVEL
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of a score: the middle `level` over resampled corpora.

    `scores` has a number or a row of numbers per item. Each of the `rounds` corpora has as many items, drawn with
    replacement.
    """
    rows = _as_rows(scores)
    source = np.random.default_rng(seed)
    values = [statistic(rows[source.integers(len(rows), size=len(rows))]) for _ in range(_checked(rounds))]
    return _middle(values, level)


@dataclass(frozen=True)
class PairedTest:
    """Result of a paired test: b's score minus a's, with its bootstrap interval.

    `p_value` is the probability of a difference of at least this size, in either direction, if a and b were
    interchangeable on every item.
    """

    difference: float
    interval: tuple[float, float]
    p_value: float
    rounds: int


def paired_test(
    a: ArrayLike, b: ArrayLike, statistic: Statistic = mean, rounds: int = PAIRED_ROUNDS, seed: int = 0
) -> PairedTest:
    """Test whether b's score differs from a's on the same items, by permutations that swap a and b on random items.

    If there are at most `rounds` permutations, all are computed. Otherwise the p-value counts the observed pairing as
    one of them, so that it is never zero.
    """
    first, second = _as_rows(a), _as_rows(b)
    if first.shape != second.shape:
        raise InvalidRequestError(
            f"a paired test needs the same items on both sides; one has {len(first)}, the other {len(second)}"
        )
    count, source = len(first), np.random.default_rng(seed)
    observed = statistic(second) - statistic(first)
    is_exact = count < 63 and 2**count <= _checked(rounds)
    extreme = 0
    for turn in range(2**count if is_exact else rounds):
        swap = (turn >> np.arange(count)) & 1 == 1 if is_exact else source.random(count) < 0.5
        difference = statistic(np.where(swap[:, None], first, second)) - statistic(
            np.where(swap[:, None], second, first)
        )
        extreme += abs(difference) >= abs(observed) - EQUAL
    drawn = source.integers(count, size=(min(rounds, ROUNDS), count))
    differences = [statistic(second[chosen]) - statistic(first[chosen]) for chosen in drawn]
    p_value = extreme / 2**count if is_exact else (extreme + 1) / (rounds + 1)
    return PairedTest(observed, _middle(differences, LEVEL), p_value, 2**count if is_exact else rounds)


def _as_rows(scores: ArrayLike) -> Rows:
    rows = np.asarray(scores, dtype=np.float64)
    if not rows.size:
        raise InvalidRequestError("there are no scores: at least one item is needed")
    return rows.reshape(len(rows), -1)


def _checked(rounds: int) -> int:
    if rounds < 1:
        raise InvalidRequestError(f"rounds is {rounds}; at least 1 is needed")
    return rounds


def _middle(values: Sequence[float], level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
