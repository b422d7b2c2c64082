"""The loop: models share time and memory, a bad step harms no other request, and every request can end at any time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from antiphon.engine.kv.manager import GroupSpec
from antiphon.engine.plan import StepPlan, SwapOut
from antiphon.engine.request import FinishReason, Priority, Request, RequestState
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.errors import ContextLengthError, InvalidRequestError, ModelNotFoundError, OverloadedError
from support.engine.engine_world import ModelSetup, World, with_config
from support.engine.memory_executor import expected_output

PLAIN = ModelSetup()


def record_models(world: World) -> list[str]:
    """The models of all steps from now on, in order."""
    steps: list[str] = []
    for name, model in world.models.items():
        before = model.executor.on_step

        def on_step(plan: StepPlan, name: str = name, before: object = before) -> None:
            if plan:
                steps.append(name)
            assert callable(before)
            before(plan)

        model.executor.on_step = on_step
    return steps


# -- several models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "share"), [(Priority.NORMAL, 1), (Priority.HIGH, 4)])
def test_models_share_time_by_priority(priority: Priority, share: int) -> None:
    world = World(256, token_seconds=0.0)
    world.add_model("a", PLAIN)
    world.add_model("b", PLAIN)
    world.add("a", [1], 500, priority=priority)
    world.add("b", [1], 500)
    steps = record_models(world)
    for _ in range(200):
        world.step()
    counts = Counter(steps)
    assert counts["a"] / counts["b"] == pytest.approx(share, rel=0.1)


def test_time_is_shared_and_not_steps() -> None:
    """A model whose steps take four times as long gets a quarter of the steps."""
    world = World(256, step_seconds=0.01, token_seconds=0.01)
    world.add_model("wide", PLAIN)
    world.add_model("narrow", PLAIN)
    for index in range(7):
        world.add("wide", [index], 300)  # 80 ms a step
    world.add("narrow", [1], 300)  # 20 ms
    steps = record_models(world)
    for _ in range(200):
        world.step()
    counts = Counter(steps)
    assert counts["narrow"] / counts["wide"] == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize(("priority", "most"), [(Priority.NORMAL, 1), (Priority.HIGH, 15)])
def test_a_model_of_short_steps_is_kept_waiting_by_one_long_step(priority: Priority, most: int) -> None:
    """Even while the other catches up with the time of a long prompt; unless the other is more urgent."""
    world = World(256, step_seconds=0.01, token_seconds=0.005)
    world.add_model("wide", PLAIN)
    world.add_model("narrow", PLAIN)
    for index in range(7):
        world.add("wide", [index], 300, priority=priority)  # 45 ms a step
    world.add("narrow", [1], 300)  # 15 ms
    for _ in range(60):
        world.step()
    world.add("narrow", [2] * 30, 300)  # 170 ms, for which the other may have as much
    steps = record_models(world)
    for _ in range(60):
        world.step()
    assert max(len(run) for run in "".join(name[0] for name in steps).split("n")) == most
    world.drain()
    world.check_outputs()


def test_idle_time_is_not_saved_up() -> None:
    world = World(256, token_seconds=0.0)
    world.add_model("a", PLAIN)
    world.add_model("b", PLAIN)
    world.add("a", [1], 400)
    for _ in range(100):
        world.step()
    world.add("b", [1], 300)
    steps = record_models(world)
    for _ in range(40):
        world.step()
    assert Counter(steps)["b"] == pytest.approx(20, abs=1)


@pytest.mark.parametrize("holds_memory", [False, True])
def test_a_critical_request_waits_at_most_one_step_of_another_model(holds_memory: bool) -> None:
    """Even if the other model's requests hold all of the memory."""
    world = World(6 if holds_memory else 256)
    world.add_model("busy", with_config(PLAIN, chunk_tokens=8))
    world.add_model("voice", PLAIN)
    for index in range(4):
        world.add("busy", [index] * 20, 60)
    for _ in range(30):
        world.step()
    if holds_memory:
        assert world.arena.num_free_slabs == 0
    for index in range(5):
        steps = record_models(world)
        critical = world.add("voice", [index] * 5, 3, priority=Priority.CRITICAL)
        while not critical.marks.first_scheduled:
            assert world.step()
        assert sum(name == "busy" for name in steps) <= 1
        while not critical.is_ended:
            world.step()
        for _ in range(5):
            world.step()
    world.drain()
    world.check_outputs()


@pytest.mark.parametrize("preemption", list(Preemption))
@pytest.mark.parametrize("depth", [1, 2])
def test_models_that_hold_each_others_memory_get_unstuck(preemption: Preemption, depth: int) -> None:
    """Each needs more than half of the arena; together they fill it half way through."""
    world = World(8)
    for name in "abc":
        setup = replace(PLAIN, depth=depth, lazy=depth > 1, prefix_caching=False)
        world.add_model(name, with_config(setup, preemption=preemption))
        world.add(name, [1] * 10, 90)
        world.add(name, [2] * 10, 90)
    world.drain()
    assert all(request.finish_reason is FinishReason.LENGTH for request in world.requests)
    assert all(request.num_output_tokens == 90 for request in world.requests)
    world.check_outputs()
    assert sum(model.scheduler.counters.preemptions for model in world.models.values()) > 0
    world.check_drained()


def test_a_critical_request_that_needs_the_memory_of_two_models_gets_it() -> None:
    """It displaces a normal request of its own model that has aged and is admitted before it again and again."""
    world = World(4)
    config = SchedulerConfig(preemption=Preemption.SWAP, chunk_tokens=None)
    world.add_model("a", ModelSetup(config=config, policy="priority", ageing_seconds=0.01))
    world.add_model("b", PLAIN)
    normal = [world.add("a", [1] * 10, 20), world.add("b", [2] * 10, 40)]
    for _ in range(10):
        world.step()
    critical = world.add("a", [3] * 60, 3, priority=Priority.CRITICAL)
    before = world.events["step entries"]
    while not critical.marks.tokens:
        assert world.step()
    assert world.events["step entries"] - before <= 3
    world.drain()
    assert all(request.state is RequestState.FINISHED for request in [critical, *normal])
    world.check_outputs()


def test_memory_freed_by_a_deadline_in_another_model_is_used_at_once() -> None:
    world = World(2)
    world.add_model("a", PLAIN)
    world.add_model("b", PLAIN)
    holder = world.add("b", [1] * 20, 4, deadline=world.clock() + 0.05)
    world.step()
    waiting = world.add("a", [2] * 20, 4)
    world.clock.now += 1.0
    assert world.step()
    assert holder.finish_reason is FinishReason.DEADLINE and waiting.state is RequestState.RUNNING
    world.drain()
    world.check_outputs()


def test_unloading_ends_a_models_requests_and_returns_its_slabs() -> None:
    world = World(16)
    world.add_model("a", replace(PLAIN, depth=2, lazy=True))
    world.add_model("b", PLAIN)
    ended = [world.add("a", [index] * 9, 30) for index in range(3)]
    kept = world.add("b", [1] * 9, 20)
    for _ in range(6):
        world.step()
    lent = world.arena.lent_bytes
    world.unload("a")
    assert world.arena.lent_bytes < lent
    assert {request.finish_reason for request in ended} == {FinishReason.CANCELLED}
    with pytest.raises(ModelNotFoundError, match=r"'a' is not loaded; loaded: b"):
        world.add("a", [1])
    world.drain()
    assert kept.output == expected_output(kept)
    world.close()


# -- failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lazy", [False, True], ids=["in submit", "in result"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_step_that_raises_fails_only_its_requests(lazy: bool, depth: int) -> None:
    world = World(64)
    model = world.add_model("m", replace(with_config(PLAIN, max_running=2), lazy=lazy, depth=depth))
    in_step = [world.add("m", [index] * 6, 20) for index in range(2)]
    outside = [world.add("m", [index + 5] * 6, 20) for index in range(2)]
    for _ in range(4):
        world.step()
    owned = model.scheduler.kv.usage().owned
    assert owned
    model.executor.fails_next = True
    while not in_step[0].is_ended:
        world.step()
    for request in in_step:
        assert request.state is RequestState.FAILED and request.error == "InjectedError: injected"
    world.drain()
    for request in outside:
        assert request.state is RequestState.FINISHED
    world.check_outputs()
    world.check_drained()


def test_a_listener_that_raises_fails_only_its_request() -> None:
    world = World(64)
    world.add_model("m", PLAIN)

    def listen(token: int) -> bool:
        raise RuntimeError("bad listener")

    bad = world.add("m", [1] * 6, 20, on_token=listen)
    good = world.add("m", [2] * 6, 20)
    world.drain()
    assert bad.state is RequestState.FAILED and bad.error == "RuntimeError: bad listener"
    assert good.output == expected_output(good)
    world.check_drained()


def test_preemption_in_a_step_that_fails_loses_nothing_of_the_victim() -> None:
    """The moves of a plan are done even if its forward raises."""
    world = World(4)
    config = SchedulerConfig(preemption=Preemption.SWAP, chunk_tokens=8)
    model = world.add_model("m", ModelSetup(config=config, prefix_caching=False))
    first, second = world.add("m", [1] * 20, 40), world.add("m", [2] * 20, 30)
    model.executor.fails_if = lambda plan: any(isinstance(move, SwapOut) for move in plan.moves)
    world.drain()
    assert first.state is RequestState.FAILED and model.scheduler.counters.swaps_in == 1
    assert second.state is RequestState.FINISHED and second.num_output_tokens == 30
    world.check_outputs()


# -- arrivals and ends -------------------------------------------------------------------------------------------------


def test_overload_is_told_with_numbers_and_leaves_nothing() -> None:
    world = World(64)
    world.add_model("m", with_config(PLAIN, max_running=1, max_waiting=2))
    world.add("m", [1], 30)
    world.step()
    world.add("m", [1])
    world.add("m", [1])
    with pytest.raises(OverloadedError, match=r"'m' has 2 requests waiting and 1 running; at most 2 may wait"):
        world.add("m", [1])
    assert len(world.core.slots["m"].scheduler.requests()) == 3
    world.drain()
    world.add("m", [1])
    world.drain()


def test_too_long_prompts_are_rejected_with_both_sizes() -> None:
    world = World(4)
    world.add_model("m", replace(PLAIN, max_model_tokens=100))
    with pytest.raises(ContextLengthError, match=r"prompt has 100 tokens; model 'm' takes 100, the answer included"):
        world.add("m", [1] * 100)
    with pytest.raises(ContextLengthError, match=r"prompt has 65 tokens; the cache of model 'm' holds 64 \(4096 bytes"):
        world.add("m", [1] * 65)
    with pytest.raises(InvalidRequestError, match="no tokens"):
        world.add("m", [])
    longest = world.add("m", [1] * 64, 10)
    world.drain()
    assert longest.finish_reason is FinishReason.LENGTH and longest.num_output_tokens == 1
    world.check_outputs()


def test_an_id_in_use_is_rejected_and_free_again_after_the_end() -> None:
    world = World(64)
    world.add_model("m", replace(PLAIN, depth=2, lazy=True))
    first = Request("same", "m", [1, 2], SamplingParams(max_tokens=20))
    world.core.add(first)
    with pytest.raises(ValueError, match="same"):
        world.core.add(Request("same", "m", [1], SamplingParams()))
    for _ in range(3):
        world.step()
    assert world.core.abort("same")
    second = Request("same", "m", [3, 4], SamplingParams(max_tokens=5))  # a step of the first is still in flight
    world.core.add(second)
    world.drain()
    assert second.output == expected_output(second)
    world.check_drained()


def test_a_deadline_ends_a_request_waiting_or_running() -> None:
    world = World(64)
    world.add_model("m", with_config(PLAIN, max_running=1))
    running = world.add("m", [1], 500, deadline=world.clock() + 0.2)
    waiting = world.add("m", [2], 500, deadline=world.clock() + 0.1)
    later = world.add("m", [3], 5, deadline=world.clock() + 100)
    world.drain()
    assert running.finish_reason is waiting.finish_reason is FinishReason.DEADLINE
    assert 0.2 <= running.marks.end_to_end < 0.25 and 0.1 <= waiting.marks.end_to_end < 0.15
    assert running.num_output_tokens > 5 and waiting.num_output_tokens == 0
    assert later.finish_reason is FinishReason.LENGTH
    world.check_outputs()
    world.check_drained()


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("preemption", list(Preemption))
def test_a_request_can_be_aborted_in_every_state(preemption: Preemption, depth: int) -> None:
    """Waiting, prefilling, decoding, in flight, preempted or swapped, waiting to fork, ended: nothing stays behind."""
    seen: set[str] = set()
    for stop in range(40):
        world = World(3)
        config = SchedulerConfig(max_running=3, chunk_tokens=5, preemption=preemption)
        setup = ModelSetup((GroupSpec("full", 256), GroupSpec("window", 256, window=6)), 4, config)
        world.add_model("m", replace(setup, depth=depth, lazy=depth > 1))
        requests = [world.add("m", [index] * 12, 12) for index in range(3)]
        requests += world.add_forks(requests[0], 2)
        for _ in range(stop):
            world.step()
        for request in requests:
            if not request.is_ended:
                seen.add(f"{request.state} {request.swapped} {request.num_in_flight_tokens > 0}")
                seen.add("preempted" if request.marks.preemptions else "fork" if request.fork_of else "plain")
            assert world.core.abort(request.id, FinishReason.DISCONNECTED) == (request.state is RequestState.ABORTED)
            assert not world.core.abort(request.id)
            world.check()
        world.drain()
        world.check_outputs()
        world.check_drained()
        assert world.core._owner == {}
    assert {"waiting False False", "running False False", "preempted", "fork", "plain"} <= seen
    assert ("waiting True False" in seen) == (preemption is Preemption.SWAP)
    assert ("running False True" in seen) == (depth == 2)


def test_a_thousand_abandoned_requests_leave_the_pool_as_it_was() -> None:
    world = World(32, checks=False)
    model = world.add_model("m", replace(with_config(PLAIN, max_running=8), prefix_caching=False, depth=2, lazy=True))
    for index in range(1000):
        request = world.add("m", [index % 60] * (index % 23 + 1), 20)
        for _ in range(index % 7):
            world.step()
        world.cancel(request)
    world.drain()
    assert world.arena.num_free_slabs == 32
    assert model.scheduler.deadlines == [] and model.scheduler.requests() == [] and model.executor.host == {}
    world.check()
