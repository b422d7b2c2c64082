"""Beam search in the engine equals a plain one written down here, over a random table of probabilities."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from antiphon.engine.beam import BeamGroup
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import GroupSpec, KVManager
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig

VOCABULARY, END = 12, 0
PROMPT = [5, 6, 7]


def logprobs(tokens: list[int], seed: int) -> list[float]:
    """A distribution that depends on the last three tokens."""
    source = random.Random(f"{seed}:{tokens[-3:]}")
    weights = [source.random() ** 3 for _ in range(VOCABULARY)]
    weights[END] *= 0.3
    total = sum(weights)
    return [math.log(weight / total) for weight in weights]


def likeliest(tokens: list[int], seed: int, count: int) -> list[tuple[int, float]]:
    values = logprobs(tokens, seed)
    return sorted(enumerate(values), key=lambda pair: -pair[1])[:count]


def plain_search(width: int, max_tokens: int, seed: int) -> list[int]:
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    while True:
        ranked = [
            (total + value, [*output, token])
            for total, output in beams
            for token, value in likeliest([*PROMPT, *output], seed, width + 1)
        ]
        ranked.sort(key=lambda pair: -pair[0])
        beams = []
        for total, output in ranked:
            if len(beams) == width:
                break
            if output[-1] == END or len(output) == max_tokens:
                finished.append((total / max(1, len(output) - (output[-1] == END)), output))
            else:
                beams.append((total, output))
        if len(finished) >= width or not beams:
            return max(finished)[1]


def make_scheduler(num_slabs: int = 64, **config: Any) -> Scheduler:
    kv = KVManager(SlabArena(num_slabs * 1024, 1024), [GroupSpec("self", 256)], 2, prefix_caching=False)
    policy = make_policy("fcfs", ageing_seconds=None, tpot_target=0.1, ttft_target=None)
    return Scheduler("m", kv, policy, SchedulerConfig(**config), 100)


def add_search(scheduler: Scheduler, width: int, max_tokens: int) -> list[Request]:
    search = BeamGroup[Request](width)
    params = SamplingParams(max_tokens=max_tokens)
    for index in range(width):
        parent = search.members[0] if search.members else None
        member = Request(
            f"{id(search)}-{index}", "m", PROMPT, params, stop_ids=frozenset({END}), fork_of=parent, beam=search
        )
        search.members.append(member)
    for member in search.members:
        scheduler.add(member, 0.0)
    return search.members


def step(scheduler: Scheduler, seed: int) -> StepPlan:
    plan = scheduler.plan(0.0)
    assert all(plan.counts), "a request is in a plan with nothing to compute"
    result = StepResult([1] * sum(plan.samples))
    for entry, request in enumerate(plan.requests):
        if plan.samples[entry] and request.beam is not None:
            result.candidates[entry] = likeliest(request.tokens, seed, request.beam.width + 1)
    scheduler.commit(plan, result, 0.0)
    scheduler.check_integrity()
    return plan


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("limits", [{}, {"max_step_tokens": 3}, {"max_running": 2}, {"num_slabs": 7}])
def test_search_equals_a_plain_one(width: int, limits: dict[str, int]) -> None:
    if "max_running" in limits:
        limits = {"max_running": max(2, width)}
    for seed in range(12):
        scheduler = make_scheduler(**limits)
        members = add_search(scheduler, width, 15)
        for _ in range(2000):
            if not scheduler.has_work:
                break
            step(scheduler, seed)
        leader = members[0]
        assert leader.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
        assert leader.output == plain_search(width, 15, seed)
        assert sum(leader.drawn_logprobs) == pytest.approx(
            sum(logprobs([*PROMPT, *leader.output[:index]], seed)[token] for index, token in enumerate(leader.output))
        )
        assert all(member.is_ended for member in members) and scheduler.kv.usage().owned == 0


@pytest.mark.parametrize("preemption", list(Preemption))
def test_a_member_preempted_after_its_offer_waits_for_the_others(preemption: Preemption) -> None:
    """It has nothing to compute until the search goes on; its row would offer another request's tokens."""
    scheduler = make_scheduler(max_step_tokens=2, preemption=preemption)
    members = add_search(scheduler, 3, 15)
    search = members[0].beam
    assert search is not None
    preempted = 0
    for _ in range(500):
        if not scheduler.has_work:
            break
        step(scheduler, 4)
        if members[0].num_output_tokens > 2 and search.has_offered(members[1]) and not search.has_offered(members[2]):
            moves = StepPlan("m")
            while members[1].row >= 0 and scheduler.preempt_last(moves):
                preempted += 1
            scheduler.check_integrity()
    assert preempted > 4
    assert members[0].output == plain_search(3, 15, 4)


def test_ending_one_ends_all() -> None:
    scheduler = make_scheduler()
    members = add_search(scheduler, 4, 50)
    for _ in range(3):
        step(scheduler, 1)
    scheduler.abort(members[0].id, FinishReason.CANCELLED, 1.0)
    scheduler.check_integrity()
    assert all(member.finish_reason is FinishReason.CANCELLED for member in members)
    assert scheduler.kv.usage().owned == 0 and not scheduler.has_work
