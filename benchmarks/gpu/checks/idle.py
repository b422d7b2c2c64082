"""Check that the card idles at most 3 % of the time between the steps of an engine with 32 decoding requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from antiphon.bench.engine.engine_bench import EngineWorkload, device_seconds
from antiphon.bench.random_models.random_model import SHAPES, random_model_of
from antiphon.engine.telemetry import StepRecord
from antiphon.runtime.frontend.engine import Engine
from antiphon.runtime.loading.config import EngineConfig
from checks.outcome import Outcome, Subject

NAME = "idle between steps"
MAX_SHARE = 0.03
ROWS, STEPS, INPUT = 32, 64, 512
#: Name of a step's first kernel.
FIRST_KERNEL = "decode_inputs"
SMALL = {"num_hidden_layers": 4, "hidden_size": 256, "intermediate_size": 1024, "vocab_size": 8000}


@dataclass(frozen=True)
class Activity:
    """Kernel or copy on the card, with times in microseconds."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Gaps:
    """Idle time between steps: number of steps, microseconds without activity before them, and microseconds in all."""

    steps: int
    idle: float
    total: float

    @property
    def share(self) -> float:
        return self.idle / self.total if self.total else 0.0


def gaps_of(activities: Sequence[Activity]) -> Gaps:
    """Sum the idle time between the first and the last step; waits inside a step are not counted."""
    ordered = sorted(activities, key=lambda activity: activity.begin)
    firsts = [activity.begin for activity in ordered if FIRST_KERNEL in activity.name]
    if len(firsts) < 2:
        return Gaps(len(firsts), 0.0, 0.0)
    idle, busy_until = 0.0, firsts[0]
    for activity in ordered:
        if activity.begin < firsts[0] or activity.begin > firsts[-1]:
            continue
        if FIRST_KERNEL in activity.name:
            idle += max(0.0, activity.begin - busy_until)
        busy_until = max(busy_until, activity.end)
    return Gaps(len(firsts), idle, firsts[-1] - firsts[0])


def check(subject: Subject) -> Iterator[Outcome]:
    is_card = subject.device.torch.type == "cuda"
    metadata: dict[str, Any] = SHAPES["qwen3-0.6b"]
    loaded = random_model_of("random", metadata if is_card else metadata | SMALL, device=subject.device)
    workload = EngineWorkload(INPUT if is_card else 16, STEPS, 0.6)
    rows = ROWS if is_card else 4
    config = EngineConfig(
        device=subject.device.name, kv_bytes=1 << (33 if is_card else 27), prefix_caching=False, max_running=rows
    )
    with Engine(loaded, config=config) as engine:
        prompts = [workload.prompts(rows, loaded.model.vocab_size, salt) for salt in ("warm", "clock", "profile")]
        engine.generate(prompts[0], workload.params())
        engine.generate(prompts[1], workload.params())
        steps = [step for step in engine.step_records() if step.decode_tokens == rows and not step.prefill_tokens]
        by_clock = f"by the engine's clock {_clock_share(steps[-STEPS // 2 :]):.1%}"
        if not is_card:
            yield Outcome(NAME, None, f"no card; {by_clock} with {rows} rows")
            return
        gaps = gaps_of(_profiled(engine, prompts[2], workload))
    if gaps.steps < STEPS // 2:
        yield Outcome(NAME, None, f"the profiler saw {gaps.steps} steps; {by_clock}")
        return
    figures = f"{gaps.share:.2%} of {gaps.total / 1e3:,.1f} ms, {gaps.steps} steps of {rows} rows; {by_clock}"
    yield Outcome(NAME, gaps.share <= MAX_SHARE, figures)


def _profiled(engine: Engine, prompts: list[list[int]], workload: EngineWorkload) -> list[Activity]:
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        engine.generate(prompts, workload.params())
        torch.cuda.synchronize()
    return [
        Activity(event.name, event.time_range.start, event.time_range.end)
        for event in profiled.events() or []
        if event.device_type == DeviceType.CUDA
    ]


def _clock_share(steps: Sequence[StepRecord]) -> float:
    """Return the share of the time from the first step's start to the last one's in which no step was computing."""
    span = steps[-1].start - steps[0].start
    return max(0.0, 1 - sum(map(device_seconds, steps[:-1])) / span)
