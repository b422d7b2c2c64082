"""Intervals of ratios: as wide as repeating the draws is, and none where there are too few requests."""

from __future__ import annotations

import numpy as np
import pytest

from antiphon.bench import confidence
from antiphon.bench.confidence import MIN_COUNT, ratio_interval
from antiphon.bench.series import Curve, curve


def drawn(source: np.random.Generator, count: int, scale: float = 1.0) -> Curve:
    made = curve(float(value) for value in scale * source.lognormal(3, 0.4, count))
    assert made is not None
    return made


@pytest.mark.parametrize(("part", "count"), [("mean", 60), ("p50", 60), ("p90", 60), ("p50", 1000)])
def test_nineteen_of_twenty_intervals_hold_the_true_ratio(
    part: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confidence, "NUM_DRAWS", 400)
    source = np.random.default_rng(5)
    intervals = [ratio_interval(drawn(source, count), drawn(source, count, 1.2), part) for _ in range(80)]
    holding = sum(one is not None and one[0] <= 1.2 <= one[1] for one in intervals)
    assert 0.88 <= holding / 80 <= 1 - 1 / 80 / 2


def test_more_requests_give_narrower_intervals() -> None:
    source = np.random.default_rng(6)
    few, many = (ratio_interval(drawn(source, count), drawn(source, count), "p50") for count in (30, 3000))
    assert few is not None and many is not None
    assert (few[1] - few[0]) > 4 * (many[1] - many[0]) > 0


def test_it_is_the_same_each_time() -> None:
    source = np.random.default_rng(7)
    one, other = drawn(source, 50), drawn(source, 50)
    assert ratio_interval(one, other, "p90") == ratio_interval(one, other, "p90")


def test_too_few_requests() -> None:
    source = np.random.default_rng(8)
    few, enough = drawn(source, MIN_COUNT - 1), drawn(source, 60)
    assert ratio_interval(few, enough, "p50") is None
    assert ratio_interval(enough, enough, "p99") is None  # not one of 60 requests lies beyond
    assert ratio_interval(drawn(source, 100), drawn(source, 100), "p99") is not None


def test_equal_values_and_zeros() -> None:
    flat, nothing = curve([5.0] * 20), curve([0.0] * 20)
    assert flat is not None and nothing is not None
    assert ratio_interval(flat, flat, "mean") == ratio_interval(flat, flat, "p50") == (1.0, 1.0)
    assert ratio_interval(nothing, flat, "p50") is None
