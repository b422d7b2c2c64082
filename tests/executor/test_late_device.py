"""Random schedules on a device that runs behind the host: every answer is the one of a request alone at depth 1."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from support.engine.late_device import LateDevice, LateExecutor
from support.engine.mixed_requests import KINDS, answer_of, is_beginning
from support.engine.model_core import BLOCK_TOKENS, MODEL, SLAB_BLOCKS, make_core

#: Some share their beginning, for the prefix cache.
PROMPTS = [
    [40, 41, 42, 43, 44],
    [*range(30, 50)],
    [*range(30, 43), 77, 78],
    [90],
    [*range(30, 50), 101, 102, 103],
]
INJECTED = "InjectedError: injected"
#: Blocks of the longest request.
LONGEST_BLOCKS = -(-(max(map(len, PROMPTS)) + 18) // BLOCK_TOKENS)


@cache
def expected(kind: str, prompt: int) -> list[tuple[Any, ...]]:
    """The answers of a kind of requests that have the engine to themselves, one step at a time."""
    core, _ = make_core(prefix_caching=False)
    requests = KINDS[kind]("alone", PROMPTS[prompt])
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    return [answer_of(request) for request in requests]


def random_core(source: random.Random, depth: int, threaded: bool) -> tuple[EngineCore, LateExecutor]:
    """Anything from roomy to so small that requests push each other out all the time."""
    config = SchedulerConfig(
        max_running=source.choice([3, 4, 8]),
        max_step_tokens=source.choice([4, 16, 256]),
        chunk_tokens=source.choice([1, 3, 16, None]),
        preemption=source.choice(list(Preemption)),
        swap_bytes=source.choice([0, 1 << 30]),
    )
    blocks = int(LONGEST_BLOCKS * source.choice([1.0, 1.5, 3.0, 8.0]))
    core, inner = make_core(
        depth,
        config=config,
        policy=make_policy(source.choice(["fcfs", "priority", "adaptive"])),
        num_slabs=-(-blocks // SLAB_BLOCKS) + 1,
        prefix_caching=source.random() < 0.7,
    )
    failure_rate = source.choice([0.0, 0.0, 0.02])
    executor = LateExecutor(inner, LateDevice(source, threaded), lambda: source.random() < failure_rate)
    core.slots[MODEL].executor = executor
    return core, executor


def run_schedule(seed: int, depth: int, threaded: bool = False) -> Counter[str]:
    """Requests of random kinds arrive and are cancelled at random. What happened is counted."""
    source = random.Random(seed)
    core, executor = random_core(source, depth, threaded)
    cases = [(kind, source.randrange(len(PROMPTS))) for kind in source.choices(list(KINDS), k=10)]
    everyone: list[tuple[str, int, list[Request]]] = []
    events: Counter[str] = Counter()
    while cases or core.has_work:
        while cases and (not core.has_work or source.random() < 0.3):
            kind, prompt = cases.pop()
            requests = KINDS[kind](f"{kind} {len(everyone)}", PROMPTS[prompt])
            priority = source.choice(list(Priority))
            for request in requests:
                request.priority = priority
                core.add(request)
            everyone.append((kind, prompt, requests))
        live = [request for _, _, requests in everyone for request in requests if not request.is_ended]
        if live and source.random() < 0.03:
            core.abort(source.choice(live).id)
        core.step()
        core.check_integrity()
        events["steps"] += 1
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
def test_late_results_change_no_answer(depth: int) -> None:
    total: Counter[str] = Counter()
    for seed in range(16):
        total += run_schedule(seed, depth)
    check_hard(total)


def test_a_device_on_a_thread_of_its_own_changes_no_answer() -> None:
    for seed in range(4):
        run_schedule(seed, depth=2, threaded=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_schedules(soak: bool) -> None:
    for seed in range(1000, 5000 if soak else 1060):
        run_schedule(seed, depth=2 + seed % 2, threaded=seed % 5 == 0)
