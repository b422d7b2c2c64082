"""Metrics of one ranking: recall, reciprocal rank and normalised discounted cumulative gain."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence

from antiphon.errors import InvalidRequestError


def recall(ranked: Sequence[Hashable], relevant: Collection[Hashable], k: int) -> float:
    """Return the fraction of relevant documents that are among the first `k`."""
    _check(relevant, k)
    return len(set(relevant) & set(ranked[:k])) / len(set(relevant))


def reciprocal_rank(ranked: Sequence[Hashable], relevant: Collection[Hashable]) -> float:
    """Return 1 / rank of the first relevant document, or 0 without one; its mean over queries is MRR."""
    _check(relevant, 1)
    return next((1 / rank for rank, document in enumerate(ranked, 1) if document in relevant), 0.0)


def ndcg(ranked: Sequence[Hashable], gains: Mapping[Hashable, float], k: int) -> float:
    """Return nDCG of the first `k`: gains over the logarithm of their ranks, relative to the best ranking.

    Documents without a gain count as 0.
    """
    _check([document for document, gain in gains.items() if gain > 0], k)
    found = [gains.get(document, 0.0) for document in ranked[:k]]
    return _discounted(found) / _discounted(sorted(gains.values(), reverse=True)[:k])


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))


def _check(relevant: Collection[Hashable], k: int) -> None:
    if not relevant:
        raise InvalidRequestError("a query without a relevant document cannot be scored")
    if k < 1:
        raise InvalidRequestError(f"k is {k}; at least 1 is needed")
