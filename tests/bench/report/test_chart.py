"""Axes that fit their values, and numbers as short texts."""

from __future__ import annotations

import math
import random

import pytest

from antiphon.bench.report.chart import LOG_SPAN, Axis, rounded, short


@pytest.mark.parametrize("from_zero", [False, True])
@pytest.mark.parametrize("log_span", [math.inf, LOG_SPAN])
def test_all_values_are_inside(from_zero: bool, log_span: float) -> None:
    source = random.Random(0)
    for _ in range(300):
        power = source.uniform(-4, 7)
        values = [10 ** (power + source.uniform(-2, 2)) for _ in range(source.randint(1, 20))]
        for some in (values, [-value for value in values], [*values, -values[0]]):
            axis = Axis.fit("x", some, log_span=log_span, from_zero=from_zero)
            assert axis.low <= min(some) and max(some) <= axis.high and axis.low < axis.high


def test_values_that_span_much_are_logarithmic() -> None:
    assert Axis.fit("x", [1.0, 1000.0], log_span=LOG_SPAN).is_log
    assert not Axis.fit("x", [1.0, 1000.0]).is_log
    assert not Axis.fit("x", [0.0, 1000.0], log_span=LOG_SPAN).is_log
    assert not Axis.fit("x", [100.0, 200.0], log_span=LOG_SPAN).is_log


def test_values_close_together_are_around_the_middle() -> None:
    assert Axis.fit("x", [100.0, 110.0], from_zero=False).low > 90
    assert Axis.fit("x", [100.0, 110.0]).low == 0
    assert Axis.fit("x", [10.0, 110.0], from_zero=False).low == 0


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [math.nan], [math.inf, 3.0]])
def test_nothing_and_zeros_still_have_an_axis(values: list[float]) -> None:
    axis = Axis.fit("x", values)
    assert math.isfinite(axis.high) and axis.high > axis.low == 0


def test_numbers_as_texts() -> None:
    values = (0, 1e-7, 4.0, 0.0123, 0.999, 1.234, 9.996, 12.34, 99.96, 123.4, 12345.6)
    assert [short(value) for value in values] == [
        "0", "0.000000", "4", "0.0123", "0.999", "1.23", "10", "12.3", "100", "123", "12,346",
    ]  # fmt: skip
    assert short(math.nan) == short(math.inf) == "–"
    assert rounded([1 / 3, 1234567.0, 0.0]) == [0.333333, 1234570.0, 0.0]
