"""Random schedules on a device that runs behind the host: every answer is the one of a request alone at depth 1."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.request import FinishReason
from antiphon.engine.scheduler import Scheduler
from support.engine.late_device import LateDevice, LateExecutor
from support.engine.mixed_requests import answer_of, is_beginning
from support.engine.mixed_schedules import expected, new_seeds, random_core, run_cases
from support.engine.model_core import MODEL

INJECTED = "InjectedError: injected"


def late_core(source: random.Random, depth: int, threaded: bool) -> tuple[EngineCore, LateExecutor]:
    """A core on a late device, some of whose steps fail."""
    core, inner = random_core(source, depth)
    failure_rate = source.choice([0.0, 0.0, 0.02])
    executor = LateExecutor(inner, LateDevice(source, threaded), lambda: source.random() < failure_rate)
    core.slots[MODEL].executor = executor
    return core, executor


def run_schedule(seed: int, depth: int, threaded: bool = False) -> Counter[str]:
    """Requests of random kinds arrive and are cancelled at random. What happened is counted."""
    source = random.Random(seed)
    core, executor = late_core(source, depth, threaded)
    everyone, steps = run_cases(core, source)
    events: Counter[str] = Counter(steps=steps)
    for kind, prompt, requests in everyone:
        for request, answer in zip(requests, expected(kind, prompt), strict=True):
            events[str(request.finish_reason)] += 1
            events["preemptions"] += request.marks.preemptions
            events["cached tokens"] += request.num_cached_tokens
            events["injected"] += request.error == INJECTED
            if request.finish_reason is FinishReason.CANCELLED or request.error == INJECTED:
                assert is_beginning(request, answer), f"seed {seed}, {request.id}: {request.output}, not {answer}"
            else:
                assert answer_of(request) == answer, f"seed {seed}, {request.id}"
    scheduler = core.slots[MODEL].scheduler
    assert isinstance(scheduler, Scheduler)
    events["swaps"] += scheduler.counters.swaps_in
    events["late plans"] += executor.num_late_plans
    events["waits"] += executor.device.num_waits
    events["unchanged"] += executor.num_unchanged
    core.remove_model(MODEL)
    executor.device.close()
    assert not executor.device.wrong, f"seed {seed}"
    return events


def check_hard(events: Counter[str]) -> None:
    """The schedules had everything in them."""
    happened = ("preemptions", "cached tokens", "swaps", "late plans", "waits", "unchanged", "injected")
    for name in (*happened, "stop", "length", "failed", "cancelled"):
        assert events[name], f"the schedules have no {name}: {events}"


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.long("random schedules on a device whose results come late")
def test_late_results_change_no_answer(depth: int) -> None:
    total: Counter[str] = Counter()
    for seed in range(16):
        total += run_schedule(seed, depth)
    check_hard(total)


def test_a_device_on_a_thread_of_its_own_changes_no_answer() -> None:
    for seed in range(4):
        run_schedule(seed, depth=2, threaded=True)


@pytest.mark.soak
def test_many_schedules() -> None:
    for seed in new_seeds(400):
        run_schedule(seed, depth=2 + seed % 2, threaded=seed % 5 == 0)
