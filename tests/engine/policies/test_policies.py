"""Order, displacement, ageing and shares, each with a number that changes when it is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.policies.adaptive import MIN_PREFILL_TOKENS, UNFITTED_PREFILL_TOKENS, AdaptivePolicy
from antiphon.engine.policies.policy import StepView
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Priority, Request
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.errors import InvalidRequestError
from support.engine.engine_world import ModelSetup, World, with_config

ONE_ROW = ModelSetup(config=SchedulerConfig(max_running=1), prefix_caching=False)


def order_of_ends(setup: ModelSetup, priorities: list[Priority]) -> list[int]:
    """Indexes of the requests in the order in which they end, all arriving at once."""
    world = World(64)
    world.add_model("m", setup)
    requests = [world.add("m", [index + 1] * 3, 3, priority=priority) for index, priority in enumerate(priorities)]
    world.drain()
    world.check_outputs()
    return sorted(range(len(requests)), key=lambda index: requests[index].marks.finished)


MIXED = [Priority.NORMAL, Priority.HIGH, Priority.CRITICAL, Priority.NORMAL, Priority.CRITICAL]


def test_fcfs_ignores_priorities() -> None:
    assert order_of_ends(ONE_ROW, MIXED) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("policy", ["priority", "adaptive"])
def test_priority_goes_by_level_then_arrival(policy: str) -> None:
    assert order_of_ends(replace(ONE_ROW, policy=policy), MIXED) == [2, 4, 1, 0, 3]


def normal_wait(ageing_seconds: float | None) -> float:
    """How long a normal request waits while high ones keep coming, one for each that ends."""
    world = World(64)
    world.add_model("m", replace(ONE_ROW, policy="priority", ageing_seconds=ageing_seconds))
    high = [world.add("m", [1, 2], 4, priority=Priority.HIGH)]
    normal = world.add("m", [3, 4], 4)
    for _ in range(200):
        world.step()
        if high[-1].marks.tokens and len(high) < 40:
            high.append(world.add("m", [1, 2], 4, priority=Priority.HIGH))
    world.drain()
    world.check_outputs()
    return normal.marks.queue_wait


def test_ageing_ends_a_normal_requests_wait() -> None:
    with_ageing, without = normal_wait(0.2), normal_wait(None)
    assert 0.2 <= with_ageing < 0.3
    assert without > 1.5, "it waits for all of them"


def displacing_world(setup: ModelSetup, num_slabs: int) -> tuple[World, list[Request], Request]:
    world = World(num_slabs)
    world.add_model("m", setup)
    normal = [world.add("m", [index] * 6, 40) for index in range(2)]
    for _ in range(4):
        world.step()
    assert all(request.marks.tokens for request in normal)
    return world, normal, world.add("m", [9] * 24, 4, priority=Priority.CRITICAL)


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize(("max_running", "num_slabs"), [(2, 64), (8, 2)], ids=["row", "blocks"])
def test_a_critical_request_displaces_a_normal_one(max_running: int, num_slabs: int, depth: int) -> None:
    waits = {}
    for policy in ("fcfs", "priority"):
        config = SchedulerConfig(max_running=max_running)
        setup = ModelSetup(config=config, policy=policy, prefix_caching=False, depth=depth, lazy=depth > 1)
        world, normal, critical = displacing_world(setup, num_slabs)
        arrived = world.events["steps"]
        while not critical.marks.first_scheduled:
            assert world.step()
        waits[policy] = world.events["steps"] - arrived
        world.drain()
        world.check_outputs()
        if policy == "priority":
            assert normal[1].marks.preemptions >= 1 and not critical.marks.preemptions
    assert waits["priority"] <= depth
    assert waits["fcfs"] > 10


def test_a_high_request_displaces_none() -> None:
    world, _, _ = displacing_world(ModelSetup(config=SchedulerConfig(max_running=3), policy="priority"), 64)
    world.add("m", [7], 4, priority=Priority.HIGH)
    world.drain()
    assert world.models["m"].scheduler.counters.preemptions == 0


# -- adaptive ----------------------------------------------------------------------------------------------------------


def fitted(per_token: float = 0.001) -> CostModel:
    cost = CostModel()
    for index in range(200):
        shape = StepShape(index % 9, 64 * (index % 5), 100 * (index % 7))
        cost.observe(shape, 0.010 + 0.001 * shape.decodes + per_token * shape.prefill_tokens)
    return cost


def share(cost: CostModel, decodes: int = 8, wait: float = 0.0, ttft: float | None = None, target: float = 0.1) -> int:
    return AdaptivePolicy(target, ttft).prefill_tokens(StepView(1.0, decodes, 0, wait, 2048, cost))


def test_adaptive_takes_its_share_from_the_cost_model() -> None:
    assert share(fitted(0.001)) == pytest.approx((0.085 - 0.018) / 0.001, abs=2)
    assert share(fitted(0.002)) == pytest.approx((0.085 - 0.018) / 0.002, abs=2)
    assert share(fitted(), decodes=0) == 2048, "no running request is slowed"
    assert share(fitted(), target=0.001) == MIN_PREFILL_TOKENS, "prefill is never starved"
    assert share(CostModel()) == UNFITTED_PREFILL_TOKENS


def test_adaptive_lengthens_steps_for_a_first_token_that_is_late() -> None:
    assert share(fitted(), wait=0.4, ttft=1.0) == share(fitted())
    assert share(fitted(), wait=0.6, ttft=1.0) == pytest.approx((0.17 - 0.018) / 0.001, abs=2)


def worst_gap(policy: str, chunk_tokens: int | None) -> tuple[float, float]:
    """The worst gap between tokens of 8 running requests when a long prompt arrives, and its time to first token."""
    world = World(4096)
    config = SchedulerConfig(chunk_tokens=chunk_tokens, max_step_tokens=2048)
    world.add_model("m", ModelSetup(block_tokens=16, config=config, policy=policy, tpot_target=0.05))
    running = [world.add("m", [index, *range(40)], 80) for index in range(8)]
    while not all(request.num_output_tokens >= 5 for request in running):
        world.step()
    world.checks = False
    long = world.add("m", list(range(60)) * 20, 2)
    world.drain()
    world.check_outputs()
    gaps = [gap for request in running for gap in request.marks.inter_token_gaps]
    return max(gaps), long.marks.time_to_first_token


def test_adaptive_keeps_the_pace_that_fcfs_loses() -> None:
    adaptive, _ = worst_gap("adaptive", 512)
    chunked, _ = worst_gap("fcfs", 512)
    whole, soonest = worst_gap("fcfs", None)
    assert adaptive <= 0.1 < chunked < whole
    assert whole == pytest.approx(0.010 + 0.001 * (1200 + 8), rel=0.01)
    assert soonest == pytest.approx(whole, rel=0.05)


def test_the_time_budget_of_a_step_bounds_the_chunk() -> None:
    """`step_seconds` acts under any policy, once steps have been measured."""
    worst = {}
    for budget in (None, 0.1):
        world = World(4096)
        config = SchedulerConfig(chunk_tokens=512, step_seconds=budget)
        world.add_model("m", ModelSetup(block_tokens=16, config=config))
        world.add("m", list(range(60)) * 2, 20)
        for _ in range(12):
            world.step()
        world.add("m", [5, *range(60)] * 20, 2)
        world.drain()
        worst[budget] = max(step.seconds for step in list(world.core.telemetry.steps)[12:])
    assert worst[None] > 0.5
    assert worst[0.1] <= 0.11


def test_policies_by_name() -> None:
    assert isinstance(make_policy("adaptive", tpot_target=0.2), AdaptivePolicy)
    with pytest.raises(InvalidRequestError, match="fcfs, priority, adaptive"):
        make_policy("best")
    with pytest.raises(InvalidRequestError, match="chunk_tokens is 0"):
        with_config(ModelSetup(), chunk_tokens=0)
    with pytest.raises(InvalidRequestError, match="max_running is 0"):
        with_config(ModelSetup(), max_running=0)


def test_a_normal_request_that_has_aged_does_not_stand_in_a_critical_ones_way() -> None:
    """The aged one is next in line and may displace none; the critical one need not wait for it."""
    world = World(64)
    world.add_model("m", replace(ONE_ROW, policy="priority", ageing_seconds=0.01))
    running = world.add("m", [1] * 4, 40)
    aged = world.add("m", [2] * 4, 4)
    for _ in range(10):
        world.step()
    critical = world.add("m", [3] * 4, 4, priority=Priority.CRITICAL)
    world.step()
    assert critical.marks.first_scheduled and not aged.marks.first_scheduled and running.marks.preemptions == 1
    world.drain()
    world.check_outputs()
