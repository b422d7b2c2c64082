"""What is kept of a run for plots: percentiles stay those of all values, extremes stay, sums stay."""

from __future__ import annotations

import math
import random

import msgspec
import numpy as np
import pytest

from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.series import (
    MAX_EXACT,
    PERCENTILES,
    Bins,
    Curve,
    Series,
    Timeline,
    curve,
    in_flight,
    kept_ranks,
    request_timeline,
    run_series,
)


def made(started: float, times: list[float], tokens: int | None = None, ended: float | None = None) -> MeasuredRequest:
    record = MeasuredRequest(started, started, (times[-1] if times else started) if ended is None else ended)
    record.arrival_times, record.completion_tokens = times, tokens
    record.arrival_chunks, record.arrival_characters = [1] * len(times), [4] * len(times)
    return record


@pytest.mark.parametrize("count", [1, 2, 3, 50, MAX_EXACT, MAX_EXACT + 1, 5_000, 100_000])
def test_percentiles_and_extremes_of_a_curve_are_those_of_all_values(count: int) -> None:
    source = random.Random(count)
    values = [source.lognormvariate(3, 1.5) for _ in range(count)]
    kept = curve(values)
    assert kept is not None and kept.count == count
    assert len(kept.ms) <= MAX_EXACT
    assert (kept.ms[0], kept.ms[-1]) == pytest.approx((min(values), max(values)), abs=1e-4)
    for percent in PERCENTILES:
        assert kept.at(percent / 100) == pytest.approx(np.percentile(values, percent), abs=2e-4)
    assert kept.at(0) == kept.ms[0] and kept.at(1) == kept.ms[-1]


def test_a_reduced_curve_is_near_the_whole_one_everywhere() -> None:
    source = random.Random(1)
    values = sorted(source.lognormvariate(3, 1.5) for _ in range(100_000))
    kept = curve(values)
    assert kept is not None
    for share in [number / 1000 for number in range(1000)] + [0.9995, 0.9999, 0.99999]:
        rank = share * (len(values) - 1)
        step = max(1.0, min(501.0, (len(values) - 1 - rank) / 2))  # ranks between two that are kept
        low, high = values[max(0, int(rank - step))], values[min(len(values) - 1, math.ceil(rank + step))]
        assert low - 1e-3 <= kept.at(share) <= high + 1e-3


def test_kept_ranks_ascend_without_repetition() -> None:
    for count in (1, 401, 402, 1000, 12_345, 1_000_000):
        ranks = kept_ranks(count)
        assert ranks == sorted(set(ranks)) and ranks[0] == 0 and ranks[-1] == count - 1
        assert len(ranks) <= MAX_EXACT


def test_values_that_are_no_numbers_are_left_out() -> None:
    assert curve([]) is curve([math.nan, math.inf]) is None
    kept = curve([3.0, math.nan, 1.0, -math.inf])
    assert kept is not None and kept.ms == [1.0, 3.0]


def test_tokens_over_time_are_all_tokens_of_whole_answers() -> None:
    source = random.Random(3)
    records = []
    for _ in range(40):
        start = source.uniform(100, 110)
        times = sorted(start + source.uniform(0, 3) for _ in range(source.randint(1, 30)))
        records.append(made(start, times, tokens=len(times) + source.randint(0, 20)))
    records[0].error = "timeout"
    records[1].arrival_times = []
    records[1].arrival_chunks = records[1].arrival_characters = []
    timeline = request_timeline(records)
    assert timeline is not None
    assert sum(timeline.tokens) == sum(record.num_output_tokens for record in records[1:])
    assert sum(timeline.failed) == 1
    end, begin = max(record.ended for record in records), min(record.started for record in records)
    assert timeline.bin_seconds * len(timeline.tokens) == pytest.approx(end - begin)


def test_requests_in_flight_against_counting_them() -> None:
    source = random.Random(4)
    spans = [(start := source.uniform(0, 10), start + source.expovariate(0.5)) for _ in range(60)]
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    bins = Bins(begin, end, 16)
    changes = [(one, 1) for one, _ in spans] + [(other, -1) for _, other in spans]
    mean, least, most = in_flight(bins, changes)
    for index in range(16):
        times = begin + (index + (np.arange(2000) + 0.5) / 2000) * bins.width
        counts = [sum(one <= moment < other for one, other in spans) for moment in times]
        assert mean[index] == pytest.approx(np.mean(counts), abs=0.02)
        assert least[index] <= min(counts) and most[index] >= max(counts)
        assert least[index] >= min(counts) - 2 and most[index] <= max(counts) + 2
    assert sum(mean) * bins.width == pytest.approx(sum(other - one for one, other in spans), rel=1e-3)


def test_runs_without_requests_time_or_whole_answers() -> None:
    assert run_series([]) == Series()
    assert request_timeline([made(1.0, [], ended=1.0)]) is None
    failed = made(1.0, [], ended=2.0)
    failed.error = "connect"
    series = run_series([failed])
    assert series.latency_ms == {} and series.timeline is not None
    assert sum(series.timeline.tokens) == 0 and max(series.timeline.in_flight_max) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": 2, "ranks": [0], "ms": [1.0]},
        {"count": 2, "ranks": [0, 1], "ms": [1.0]},
        {"count": 2, "ranks": [0, 1], "ms": [2.0, 1.0]},
        {"count": 3, "ranks": [0, 0, 2], "ms": [1.0, 1.0, 1.0]},
        {"count": 2, "ranks": [0, 1], "ms": [None, 1.0]},
        {"count": 0, "ranks": [], "ms": []},
    ],
)
def test_curves_of_files_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Curve)


def test_timelines_of_files_are_checked() -> None:
    right = {"bin_seconds": 1.0, "tokens": [1], "in_flight": [1], "in_flight_min": [1], "in_flight_max": [1]}
    assert msgspec.convert(right, Timeline).failed == []
    changes: list[dict[str, object]] = [{"bin_seconds": 0.0}, {"tokens": []}, {"failed": [1, 2]}, {"in_flight": [1, 2]}]
    for change in changes:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(right | change, Timeline)
