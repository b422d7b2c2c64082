"""Scales and their ticks, and numbers as short texts."""

from __future__ import annotations

import math
import random

import pytest

from antiphon.bench.report.scales import (
    Scale,
    latency_scale,
    linear_scale,
    linear_ticks,
    log_ticks,
    short,
    tick_text,
)


@pytest.mark.parametrize("is_log", [False, True])
def test_a_position_gives_its_value_back(is_log: bool) -> None:
    scale = Scale(2.0, 900.0, 50.0, 450.0, is_log)
    assert (scale(2.0), scale(900.0)) == pytest.approx((50.0, 450.0))
    for value in (2.0, 3.0, 77.0, 500.0, 900.0):
        assert scale.value(scale(value)) == pytest.approx(value)
    assert scale(5.0) < scale(50.0) < scale(500.0)


def test_all_values_are_inside_and_ticks_are_few_and_round() -> None:
    source = random.Random(0)
    for _ in range(300):
        power = source.uniform(-4, 7)
        values = [10 ** (power + source.uniform(-2, 2)) for _ in range(source.randint(1, 20))]
        for scale in (linear_scale(values, 0, 100), latency_scale(values, 0, 100)):
            assert scale.low <= min(values) and max(values) <= scale.high * (1 + 1e-9)
            ticks = scale.ticks(6)
            assert 1 <= len(ticks) <= 7 and ticks == sorted(ticks)
            assert all(scale.low * (1 - 1e-9) <= tick <= scale.high * (1 + 1e-9) for tick in ticks)


def test_values_that_span_much_are_logarithmic() -> None:
    assert latency_scale([1.0, 1000.0], 0, 1).is_log
    assert not latency_scale([0.0, 1000.0], 0, 1).is_log
    assert not latency_scale([100.0, 200.0], 0, 1).is_log


@pytest.mark.parametrize("values", [[], [0.0], [0.0, 0.0], [math.nan], [math.inf, 3.0]])
def test_nothing_and_zeros_still_have_a_scale(values: list[float]) -> None:
    scale = linear_scale(values, 0, 100)
    assert scale.high > scale.low == 0
    assert math.isfinite(scale(0.0))


def test_one_value_still_has_a_scale() -> None:
    for value in (0.0, 1e-3, 5.0, 1e6):
        scale = latency_scale([value, value], 0, 100)
        assert 0 <= scale(value) <= 100


def test_ticks() -> None:
    assert linear_ticks(0, 10, 5) == [0, 2, 4, 6, 8, 10]
    assert log_ticks(9, 1100, 6) == pytest.approx([10, 30, 100, 300, 1000])
    assert log_ticks(0.9, 1e6, 6) == pytest.approx([1, 100, 1e4, 1e6])


def test_numbers_as_texts() -> None:
    values = (0, 1e-7, 4.0, 0.0123, 0.999, 1.234, 9.996, 12.34, 99.96, 123.4, 12345.6)
    assert [short(value) for value in values] == [
        "0", "0.000000", "4", "0.0123", "0.999", "1.23", "10", "12.3", "100", "123", "12,346",
    ]  # fmt: skip
    assert short(math.nan) == short(math.inf) == "–"
    assert [tick_text(value) for value in (0, 0.5, 20.0, 1000.0, 0.30000000000000004)] == [
        "0",
        "0.5",
        "20",
        "1,000",
        "0.3",
    ]
