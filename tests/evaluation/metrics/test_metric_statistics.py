"""Intervals and paired tests are those of scipy, and cover what they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import (
    Score,
    bootstrap_interval,
    mean,
    paired_test,
    ratio_of_sums,
)


def test_the_interval_of_a_mean_is_scipys() -> None:
    scores = np.random.default_rng(0).gamma(2.0, 3.0, size=200)
    theirs = scipy.stats.bootstrap(
        (scores,), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    ours = bootstrap_interval(scores, mean, rounds=5000, seed=2)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.06 * (theirs.high - theirs.low))


def test_the_interval_of_a_ratio_is_scipys() -> None:
    source = np.random.default_rng(3)
    words = source.integers(5, 40, size=150)
    errors = source.binomial(words, 0.1)
    theirs = scipy.stats.bootstrap(
        (errors, words), lambda e, w, axis: e.sum(axis) / w.sum(axis), paired=True, vectorized=True,
        n_resamples=5000, method="percentile", rng=np.random.default_rng(4),
    ).confidence_interval  # fmt: skip
    ours = bootstrap_interval(np.stack([errors, words], axis=1), ratio_of_sums, rounds=5000, seed=5)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.06 * (theirs.high - theirs.low))


def test_an_interval_covers_the_true_mean_as_often_as_it_says() -> None:
    source = np.random.default_rng(6)
    covered = 0
    for turn in range(150):
        low, high = bootstrap_interval(source.normal(5.0, 2.0, size=60), mean, rounds=200, seed=turn)
        covered += low <= 5.0 <= high
    assert 0.90 <= covered / 150 <= 0.98


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    scores = np.random.default_rng(7).normal(size=50)
    assert bootstrap_interval(scores, seed=1) == bootstrap_interval(scores, seed=1)
    assert bootstrap_interval(scores, seed=1) != bootstrap_interval(scores, seed=2)


def test_a_higher_level_is_a_wider_interval() -> None:
    scores = np.random.default_rng(8).normal(size=50)
    narrow, wide = bootstrap_interval(scores, level=0.5), bootstrap_interval(scores, level=0.99)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(("count", "exact"), [(9, True), (60, False)])
def test_the_p_value_is_scipys(count: int, exact: bool) -> None:
    source = np.random.default_rng(count)
    a = source.normal(0.0, 1.0, size=count)
    b = a + source.normal(0.1, 1.0, size=count)
    theirs = scipy.stats.permutation_test(
        (b, a), lambda x, y, axis: x.mean(axis) - y.mean(axis), permutation_type="samples", vectorized=True,
        n_resamples=np.inf if exact else 10_000, rng=np.random.default_rng(0),
    )  # fmt: skip
    ours = paired_test(a, b)
    assert ours.difference == pytest.approx(theirs.statistic, abs=1e-12)
    assert 0.01 < theirs.pvalue < 0.9
    if exact:
        assert ours.rounds == 2**count
        assert ours.p_value == pytest.approx(theirs.pvalue, abs=1e-12)
    else:
        assert ours.p_value == pytest.approx(theirs.pvalue, abs=0.02)


def test_the_interval_of_a_difference_is_scipys() -> None:
    source = np.random.default_rng(9)
    a = source.normal(size=100)
    b = a + source.normal(0.3, 0.5, size=100)
    theirs = scipy.stats.bootstrap(
        (b, a), lambda x, y, axis: x.mean(axis) - y.mean(axis), paired=True, vectorized=True, n_resamples=10_000,
        method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    ours = paired_test(a, b)
    assert ours.interval == pytest.approx((theirs.low, theirs.high), abs=0.08 * (theirs.high - theirs.low))


def test_equal_sides_do_not_differ() -> None:
    scores = np.random.default_rng(10).normal(size=40)
    found = paired_test(scores, scores)
    assert (found.difference, found.interval, found.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_a_clear_difference_has_the_smallest_p_value_that_the_rounds_allow() -> None:
    a = np.random.default_rng(11).normal(size=100)
    found = paired_test(a, a + 1.0, rounds=999)
    assert found.p_value == pytest.approx(1 / 1000)
    assert found.difference == pytest.approx(1.0)


def test_p_values_are_uniform_where_nothing_differs() -> None:
    source = np.random.default_rng(12)
    values = [
        paired_test(source.normal(size=25), source.normal(size=25), rounds=99, seed=turn).p_value for turn in range(100)
    ]
    assert 0.01 <= np.mean(np.array(values) <= 0.05) <= 0.10
    assert scipy.stats.kstest(values, "uniform").pvalue > 0.01


def test_a_paired_test_of_a_corpus_statistic_swaps_whole_items() -> None:
    """Four items, all sixteen swaps by hand."""
    a = [(1, 10), (0, 5), (3, 8), (2, 20)]
    b = [(0, 10), (0, 5), (2, 8), (4, 20)]
    differences = []
    for mask in range(16):
        left = [b[i] if mask >> i & 1 else a[i] for i in range(4)]
        right = [a[i] if mask >> i & 1 else b[i] for i in range(4)]
        differences.append((sum(e for e, _ in right) - sum(e for e, _ in left)) / 43)
    observed = differences[0]
    expected = sum(abs(d) >= abs(observed) - 1e-12 for d in differences) / 16
    assert paired_test(a, b, ratio_of_sums).p_value == expected


def test_a_score_of_items_is_their_mean() -> None:
    items = np.random.default_rng(13).random(30).tolist()
    assert Score.of_items(items).value == pytest.approx(sum(items) / 30)


def test_what_cannot_be_drawn_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match="at least one item"):
        bootstrap_interval([])
    with pytest.raises(InvalidRequestError, match="rounds is 0"):
        bootstrap_interval([1.0], rounds=0)
    with pytest.raises(InvalidRequestError, match="one has 2, the other 3"):
        paired_test([1.0, 2.0], [1.0, 2.0, 3.0])
