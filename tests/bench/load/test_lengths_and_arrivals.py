"""Lengths, arrival times and objectives: what they draw, and what they reject."""

from __future__ import annotations

import random

import numpy as np
import pytest

from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.load.lengths import MAX_TOKENS, Lengths
from antiphon.bench.load.objectives import Objectives
from antiphon.errors import InvalidRequestError


def drawn(text: str, count: int = 20_000) -> np.ndarray:
    source = random.Random(1)
    lengths = Lengths.parse(text, "--input-len")
    return np.array([lengths.draw(source) for _ in range(count)])


def test_fixed_and_uniform() -> None:
    assert set(drawn("17")) == {17}
    values = drawn("4:9")
    assert set(values) == set(range(4, 10))
    assert values.mean() == pytest.approx(6.5, abs=0.05)


def test_normal() -> None:
    values = drawn("normal:100:15")
    assert values.mean() == pytest.approx(100, abs=0.5)
    assert values.std() == pytest.approx(15, abs=0.3)
    assert drawn("normal:2:50").min() == 1


def test_lognormal() -> None:
    values = drawn("lognormal:200:0.5")
    assert np.median(values) == pytest.approx(200, rel=0.02)
    assert np.log(values).std() == pytest.approx(0.5, rel=0.02)
    assert drawn("lognormal:1000:40", 200).max() == MAX_TOKENS


@pytest.mark.parametrize(
    "text",
    ["", "0", "-3", "x", "9:4", "1:2:3", "normal:5", "normal:0:2", "normal:5:-1", "lognormal:nan:1", "1.5", "2000000"],
)
def test_wrong_lengths_are_rejected_by_name(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="--input-len"):
        Lengths.parse(text, "--input-len")


@pytest.mark.parametrize("text", ["5", "4:9", "normal:100:15", "lognormal:200:0.5"])
def test_lengths_read_as_they_were_written(text: str) -> None:
    assert str(Lengths.parse(text, "x")) == text


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
def test_arrival_gaps(burstiness: float) -> None:
    """Gamma gaps: their mean is 1/rate, their squared relative deviation 1/burstiness."""
    arrivals = Arrivals(request_rate=50.0, burstiness=burstiness)
    gaps = np.diff(arrivals.times(40_000, seed=3))
    assert gaps.mean() == pytest.approx(1 / 50, rel=0.03)
    assert (gaps.std() / gaps.mean()) ** 2 == pytest.approx(1 / burstiness, rel=0.08)
    assert arrivals.times(10, 3) == arrivals.times(10, 3) != arrivals.times(10, 4)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"concurrency": 2, "request_rate": 1.0},
        {"concurrency": 0},
        {"request_rate": 0.0},
        {"request_rate": 1.0, "burstiness": 0.0},
        {"concurrency": 2, "burstiness": 2.0},
    ],
)
def test_wrong_arrivals_are_rejected(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidRequestError):
        Arrivals(**fields)  # type: ignore[arg-type]


def test_objectives() -> None:
    objectives = Objectives.parse("ttft:300, tpot:50")
    assert objectives.are_met({"ttft": 300.0, "tpot": 49.0, "e2e": 1e9})
    assert objectives.are_met({"ttft": 10.0, "tpot": None})
    assert not objectives.are_met({"ttft": 300.1, "tpot": 1.0})
    assert not objectives.are_met({"ttft": 1.0, "tpot": 50.5})
    for wrong in ("", "ttft", "ttft:0", "ttft:x", "speed:3", "ttft:1,ttft:2", "ttft:inf"):
        with pytest.raises(InvalidRequestError, match="--slo"):
            Objectives.parse(wrong)
