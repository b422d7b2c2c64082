"""Rankings against scikit-learn and by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.retrieval import ndcg, recall, reciprocal_rank


@pytest.mark.parametrize("k", [1, 3, 10])
def test_ndcg_is_scikit_learns(k: int) -> None:
    source = np.random.default_rng(k)
    for _ in range(50):
        gains = source.integers(0, 4, size=10).astype(float)
        gains[source.integers(10)] = 2.0
        scores = source.permutation(10).astype(float)
        ranked = np.argsort(-scores).tolist()
        theirs = ndcg_score(gains[None], scores[None], k=k)
        assert ndcg(ranked, dict(enumerate(gains)), k) == pytest.approx(theirs, abs=1e-12)


def test_rankings_by_hand() -> None:
    ranked = ["d", "a", "c", "b"]
    assert [recall(ranked, {"a", "b"}, k) for k in (1, 2, 3, 4, 9)] == [0.0, 0.5, 0.5, 1.0, 1.0]
    assert reciprocal_rank(ranked, {"b", "c"}) == pytest.approx(1 / 3)
    assert reciprocal_rank(ranked, {"x"}) == 0.0
    expected = (1 / math.log2(3) + 1 / math.log2(5)) / (1 + 1 / math.log2(3))
    assert ndcg(ranked, {"a": 1.0, "b": 1.0}, 4) == pytest.approx(expected)


def test_a_perfect_ranking_scores_one() -> None:
    source = random.Random(0)
    for _ in range(20):
        gains = {name: float(source.randrange(1, 5)) for name in "abcdef"[: source.randrange(1, 6)]}
        ranked = [*sorted(gains, key=lambda name: -gains[name]), "x", "y"]
        assert ndcg(ranked, gains, source.randrange(1, 8)) == pytest.approx(1.0)
        assert reciprocal_rank(ranked, gains) == 1.0


def test_what_cannot_be_scored_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match="without a relevant document"):
        recall(["a"], set(), 1)
    with pytest.raises(InvalidRequestError, match="without a relevant document"):
        ndcg(["a"], {"a": 0.0}, 1)
    with pytest.raises(InvalidRequestError, match="k is 0"):
        recall(["a"], {"a"}, 0)
