"""Reports of an engine: its steps and its work over time."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.bench.engine.engine_bench import EngineWorkload, bench_latency, bench_throughput
from antiphon.bench.engine.engine_series import step_timeline
from antiphon.bench.random_models.random_model import random_model_of
from antiphon.bench.report.engine_report import engine_report
from antiphon.engine.telemetry import MAX_STEPS, StepRecord
from antiphon.runtime.loading.loading import LoadedModel
from support.models.tiny_model import CONFIG
from support.pages.report_page import ReportPage


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return random_model_of("tiny <b>", CONFIG | {"tie_word_embeddings": True})


def test_latency_of_several_batch_sizes(loaded: LoadedModel) -> None:
    result = bench_latency(loaded, EngineWorkload(8, 6), [3, 1])
    page = ReportPage(engine_report(result))
    assert page.plots == ["tokens", "steps", "first-token", "step"]
    [line] = page.plot("tokens").lines()
    ordered = sorted(result["figures"], key=lambda one: one["batch"])
    assert [x for x, _ in line] == pytest.approx([1, 3], rel=0.01)
    assert [y for _, y in line] == pytest.approx([one["tokens_per_second"] for one in ordered], rel=0.01)
    assert len(page.plot("steps").lines()) == 3 and len(page.plot("step").lines()) == 2
    assert "tiny <b>" in page.text and "batch 3" in page.text


def test_latency_of_one_batch_size(loaded: LoadedModel) -> None:
    result = bench_latency(loaded, EngineWorkload(8, 6), [2])
    page = ReportPage(engine_report(result))
    assert page.plots == ["first-token", "step"]
    assert page.plot("step").marks()[0][0] == pytest.approx(result["figures"][0]["step_ms"], rel=0.02)


def test_throughput_over_time(loaded: LoadedModel) -> None:
    result = bench_throughput(loaded, EngineWorkload(8, 6), num_prompts=5, max_running=2)
    page = ReportPage(engine_report(result))
    assert page.plots == ["tokens", "prompts", "in-flight", "steps"]
    timeline = result["series"][0]["timeline"]
    assert sum(timeline["prompt_tokens"]) == pytest.approx(5 * 8, abs=0.01)
    assert sum(timeline["tokens"]) == pytest.approx(5 * 5, abs=0.01)  # the first token of each comes with its prompt
    assert max(timeline["in_flight_max"]) == 2


def test_results_without_series(loaded: LoadedModel) -> None:
    latency = bench_latency(loaded, EngineWorkload(8, 4), [1, 2])
    del latency["series"], latency["environment"]
    assert ReportPage(engine_report(latency)).plots == ["tokens", "steps"]
    throughput = bench_throughput(loaded, EngineWorkload(8, 4), num_prompts=2, max_running=2)
    del throughput["series"]
    page = ReportPage(engine_report(throughput))
    assert page.plots == [] and "The run over time is left out" in page.text


def step(start: float, seconds: float, decode: int, prefill: int, running: int) -> StepRecord:
    figures: dict[str, Any] = {"waiting": 0, "blocks_free": 0, "blocks_cached": 0, "blocks_owned": 0}
    return StepRecord(0, "m", start, decode, prefill, running, parts={"run": seconds}, **figures)


def test_the_tokens_of_a_step_are_spread_over_its_time() -> None:
    steps = [step(10.0, 6.0, 0, 600, 3), step(16.0, 6.0, 12, 0, 3), step(22.0, 12.0, 12, 0, 0)]
    timeline = step_timeline(steps, 10.0, 34.0)
    assert timeline is not None and timeline.bin_seconds == 2.0
    assert timeline.prompt_tokens == [200.0] * 3 + [0.0] * 9
    assert timeline.tokens == [0.0] * 3 + [4.0] * 3 + [2.0] * 6
    assert timeline.in_flight == [3.0] * 12  # the last step still computes what it ends


def test_a_run_with_more_steps_than_are_kept_has_no_timeline() -> None:
    steps = [step(float(index), 1.0, 1, 0, 1) for index in range(MAX_STEPS)]
    assert step_timeline(steps, 0.0, float(MAX_STEPS)) is None
    assert step_timeline(steps[1:], 0.0, float(MAX_STEPS)) is not None
    assert step_timeline([], 0.0, 1.0) is None
