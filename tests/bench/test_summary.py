"""Statistics against numpy, and measures of records whose times are known."""

from __future__ import annotations

import random

import numpy as np
import pytest

from antiphon.bench.load.generator import LoadResult
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.openai_stream import StreamReader
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.series import PERCENTILES
from antiphon.bench.summary import NUM_BINS, distribution, summarize
from antiphon.bench.table import bars


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101, 1000])
def test_percentiles_are_numpys(count: int) -> None:
    source = random.Random(count)
    values = sorted(source.lognormvariate(0, 2) for _ in range(count))
    figures = distribution([value / 1e3 for value in values])
    assert figures is not None
    assert (figures["min"], figures["max"]) == pytest.approx((values[0], values[-1]))
    for percent in PERCENTILES:
        assert figures[f"p{percent}"] == pytest.approx(np.percentile(values, percent))
    assert figures["mean"] == pytest.approx(np.mean(values))
    assert sum(figures["histogram"]) == count
    if count > 1:
        assert figures["histogram"] == list(np.histogram(values, NUM_BINS)[0])


def record(times: list[float], tokens: int | None, characters: list[int] | None = None) -> MeasuredRequest:
    made = MeasuredRequest(started=10.0, due=10.0, ended=times[-1] + 0.5, completion_tokens=tokens)
    made.arrival_times = times
    made.arrival_chunks = [1] * len(times)
    made.arrival_characters = characters or [4] * len(times)
    return made


def test_one_token_a_chunk() -> None:
    made = record([11.0, 11.5, 12.5], 3)
    assert made.time_to_first_token == 1.0
    assert made.end_to_end == 3.0
    assert made.time_per_output_token == 0.75
    assert made.chunk_gaps() == made.inter_token_gaps() == [0.5, 1.0]


def test_tokens_that_come_together_share_the_gap() -> None:
    """Four tokens in three chunks; the long chunk is the one with two of them."""
    made = record([11.0, 11.5, 12.5], 4, [4, 3, 9])
    assert made.tokens_per_arrival() == [1, 1, 2]
    assert made.chunk_gaps() == [0.5, 1.0]
    assert made.inter_token_gaps() == [0.5, 0.5, 0.5]
    assert made.time_per_output_token == 0.5


def test_a_first_chunk_of_many_tokens_is_not_spread_over_the_rest() -> None:
    made = record([11.0, 12.0, 13.0], 12, [40, 4, 4])
    assert made.tokens_per_arrival() == [10, 1, 1]
    assert made.time_per_output_token == 1.0


def test_two_chunks_in_one_read_are_one_arrival() -> None:
    made = record([11.0, 12.0], 3, [4, 8])
    made.arrival_chunks = [1, 2]
    assert made.inter_token_gaps() == [0.5, 0.5]


def test_answers_without_usage_or_without_text() -> None:
    assert record([11.0, 12.0], None).num_output_tokens == 2
    silent = MeasuredRequest(started=1.0, due=1.0, ended=3.0, completion_tokens=4)
    assert silent.time_to_first_token == 2.0
    assert silent.time_per_output_token is None
    assert silent.inter_token_gaps() == []


def test_figures_of_a_run() -> None:
    fast, slow = record([10.1, 10.2], 2), record([10.5, 11.5], 2)
    fast.prompt_tokens, fast.cached_tokens = 30, 16
    slow.prompt_tokens, slow.cached_tokens = 50, 0
    failed = MeasuredRequest(started=10.0, due=9.0, ended=10.0, error="http_429", message="too many")
    figures = summarize(LoadResult([fast, slow, failed], 4.0, 0.002), Objectives.parse("ttft:300,tpot:2000"))
    assert (figures["completed"], figures["failed"], figures["requests_per_second"]) == (2, 1, 0.5)
    assert (figures["input_tokens"], figures["output_tokens"], figures["cached_tokens"]) == (80, 4, 16)
    assert (figures["output_tokens_per_second"], figures["total_tokens_per_second"]) == (1.0, 21.0)
    assert figures["latency_ms"]["ttft"]["mean"] == pytest.approx(300)
    assert figures["latency_ms"]["e2e"]["p50"] == pytest.approx(np.percentile([700, 2000], 50))
    assert figures["goodput"]["requests_per_second"] == 0.25
    assert figures["goodput"]["share"] == pytest.approx(1 / 3)
    assert figures["errors"] == {"http_429": {"count": 1, "example": "too many"}}
    assert figures["tool"]["cpu_us_per_token"] == pytest.approx(500)
    assert figures["tokens_counted_by"] == "usage"


def test_drafts_of_a_run() -> None:
    fast, slow, silent = record([10.1, 10.2], 2), record([10.5, 11.5], 2), record([10.5, 11.5], 2)
    reader = StreamReader(fast)
    reader.head(200)
    for details in ("null", '{"accepted_prediction_tokens": 6, "rejected_prediction_tokens": 2}', "{}"):
        usage = f'{{"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {details}}}'
        reader.body(f'data: {{"choices": [], "usage": {usage}}}\n'.encode(), 10.3)
    slow.drafted_tokens, slow.accepted_tokens = 4, 0
    assert (fast.drafted_tokens, fast.accepted_tokens, silent.drafted_tokens) == (8, 6, None)
    figures = summarize(LoadResult([fast, slow, silent], 4.0, 0.002))
    assert (figures["drafted_tokens"], figures["accepted_tokens"]) == (12, 6)
    assert summarize(LoadResult([silent], 4.0, 0.002))["drafted_tokens"] == 0


def test_bars() -> None:
    assert bars([0, 1, 50, 100]) == " ▁▄█"
