"""What the scheduler promises, counted in tokens, bytes and steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from antiphon.engine.kv.manager import GroupSpec
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from support.engine.engine_world import ModelSetup, SimulatedModel, World, with_config
from support.engine.memory_executor import Truth

BLOCK = 16
SETUP = ModelSetup((GroupSpec("full", 512),), BLOCK, SchedulerConfig(chunk_tokens=256))


def world_of(setup: ModelSetup = SETUP, num_slabs: int = 1024) -> tuple[World, SimulatedModel]:
    world = World(num_slabs)
    return world, world.add_model("m", setup)


def prompt_of(length: int, seed: int = 0) -> list[int]:
    truth = Truth([seed], 1)
    truth.reach(length)
    return truth.tokens[:length]


# -- sharing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caching", [True, False])
def test_a_shared_prefix_is_computed_and_held_once(caching: bool) -> None:
    world, model = world_of(replace(SETUP, prefix_caching=caching))
    shared = prompt_of(1000)
    first = world.add("m", [*shared, *prompt_of(40, 1)], 100)
    while not first.marks.tokens:
        world.step()
    assert model.executor.counters.tokens == 1040
    alone = model.scheduler.kv.usage().owned_bytes
    second = world.add("m", [*shared, *prompt_of(40, 2)], 5)
    before = model.executor.counters.tokens - model.scheduler.counters.decode_tokens
    while not second.marks.tokens:
        world.step()
    computed = model.executor.counters.tokens - model.scheduler.counters.decode_tokens - before
    added = model.scheduler.kv.usage().owned_bytes - alone
    full_blocks = 1000 // BLOCK
    if caching:
        assert second.num_cached_tokens == full_blocks * BLOCK
        assert computed == 1040 - full_blocks * BLOCK
        assert added == 4 * 512, "only the blocks after the prefix"
    else:
        assert second.num_cached_tokens == 0 and computed == 1040
        assert added >= 65 * 512
    world.drain()
    world.check_outputs()


@pytest.mark.parametrize("length", [1000, 1009])
def test_four_samples_share_the_prompt(length: int) -> None:
    world, model = world_of()
    parent = world.add("m", prompt_of(length), 20)
    forks = world.add_forks(parent, 3)
    while not all(request.marks.tokens for request in [parent, *forks]):
        world.step()
    counters = model.executor.counters
    prefill = counters.tokens - model.scheduler.counters.decode_tokens
    assert prefill == length, "the prompt is computed once; each fork computes its last token as a decode"
    assert model.scheduler.kv.usage().owned <= -(-length // BLOCK) + 2 * 3
    shared = (length - 1) // BLOCK
    tables = [request.tables[0][:shared] for request in [parent, *forks]]
    assert tables[0] == tables[1] == tables[2] == tables[3]
    assert counters.copied_bytes == (0 if (length - 1) % BLOCK == 0 else 3 * 512)
    assert [fork.num_cached_tokens for fork in forks] == [length - 1] * 3
    world.drain()
    assert len({tuple(request.output) for request in [parent, *forks]}) == 4
    world.check_outputs()
    world.check_drained()


# -- long prompts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk_tokens", [256, None])
def test_a_long_prompt_never_stalls_running_requests(chunk_tokens: int | None) -> None:
    """6,000 tokens arrive while 8 requests decode: every step still gives each of them its token."""
    world, model = world_of(with_config(SETUP, chunk_tokens=chunk_tokens, max_step_tokens=2048), 4096)
    running = [world.add("m", prompt_of(30, index), 120) for index in range(8)]
    while not all(request.marks.tokens for request in running):
        world.step()
    world.checks = False
    long = world.add("m", prompt_of(6000, 9), 5)
    plans: list[StepPlan] = []
    model.executor.on_step = plans.append
    steps = 0
    while not long.marks.tokens:
        before = [request.num_output_tokens for request in running]
        world.step()
        steps += 1
        assert [request.num_output_tokens for request in running] == [count + 1 for count in before]
    largest = max(plan.num_tokens for plan in plans)
    if chunk_tokens is None:
        assert steps == 1 and largest == 6008
    else:
        assert largest == 256 + 8, "no request waits longer than one chunk's step"
        assert steps == -(-6000 // 256)
    world.drain()
    world.check_outputs()


# -- preemption --------------------------------------------------------------------------------------------------------


def contended(preemption: Preemption, swap_bytes: int = 1 << 20) -> tuple[int, SimulatedModel]:
    """Three requests of which two fit; the tokens computed in all."""
    setup = ModelSetup((GroupSpec("full", 256),), 4, prefix_caching=False)
    world, model = world_of(with_config(setup, preemption=preemption, swap_bytes=swap_bytes), num_slabs=8)
    requests = [world.add("m", prompt_of(20, index), 40) for index in range(3)]
    world.drain()
    assert all(request.num_output_tokens == 40 for request in requests)
    assert model.scheduler.counters.preemptions > 0
    world.check_outputs()
    world.check_drained()
    return model.executor.counters.tokens, model


def test_swapping_computes_nothing_twice_and_recomputing_does() -> None:
    exactly = 3 * (20 + 39)
    swapped, model = contended(Preemption.SWAP)
    assert swapped == exactly
    assert model.executor.counters.swapped_out_bytes == model.executor.counters.swapped_in_bytes > 0
    recomputed, model = contended(Preemption.RECOMPUTE)
    assert recomputed > exactly and model.executor.counters.swapped_out_bytes == 0
    without_room, model = contended(Preemption.SWAP, swap_bytes=0)
    assert without_room == recomputed and model.scheduler.counters.swaps_out == 0


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    """With the prefix cache, recomputing costs only what was evicted meanwhile."""
    computed = {}
    for caching in (True, False):
        setup = ModelSetup((GroupSpec("full", 256),), 4, prefix_caching=caching)
        world, model = world_of(setup, num_slabs=8)
        for index in range(3):
            world.add("m", prompt_of(20, index), 40)
        world.drain()
        world.check_outputs()
        computed[caching] = model.executor.counters.tokens
    assert computed[True] < computed[False]


def test_the_latest_is_preempted_first_and_keeps_its_position_in_line() -> None:
    setup = ModelSetup((GroupSpec("full", 256),), 4, prefix_caching=False)
    world, _ = world_of(setup, num_slabs=8)
    requests = [world.add("m", prompt_of(20, index), 40) for index in range(4)]
    world.drain()
    assert requests[0].marks.preemptions == 0
    finished = [request.marks.finished for request in requests]
    assert finished == sorted(finished)
    world.check_outputs()


# -- windows and sinks -------------------------------------------------------------------------------------------------


def most_owned_bytes(group: GroupSpec) -> int:
    """The most memory that a request of 200 tokens ever holds."""
    world, model = world_of(with_config(ModelSetup((group,), 4), max_step_tokens=16, chunk_tokens=16))
    world.add("m", prompt_of(100), 100)
    most = 0
    while world.core.has_work:
        world.step()
        most = max(most, model.scheduler.kv.usage().owned_bytes)
    world.check_outputs()
    return most


def test_a_window_frees_what_left_it() -> None:
    assert most_owned_bytes(GroupSpec("full", 256)) == 50 * 256
    assert most_owned_bytes(GroupSpec("window", 256, window=16)) <= 10 * 256


def test_sinks_are_kept_beside_the_window() -> None:
    window = most_owned_bytes(GroupSpec("window", 256, window=16))
    with_sinks = most_owned_bytes(GroupSpec("compressed", 256, window=16, sink_tokens=7))
    assert with_sinks == window + 2 * 256
    assert with_sinks < most_owned_bytes(GroupSpec("full", 256)) / 3, "the middle is evicted"


def test_a_window_lets_the_arena_hold_longer_requests() -> None:
    """A prompt that could never fit in full is served within its window and sinks."""
    setup = ModelSetup((GroupSpec("compressed", 256, window=16, sink_tokens=4),), 4)
    world, _ = world_of(with_config(setup, max_step_tokens=16, chunk_tokens=16), num_slabs=4)
    request = world.add("m", prompt_of(300), 50)
    world.drain()
    assert request.finish_reason is FinishReason.LENGTH and request.num_output_tokens == 50
    world.check_outputs()


# -- results -----------------------------------------------------------------------------------------------------------


def test_prompt_logprobs_are_read_once_though_a_request_is_preempted() -> None:
    _, model = world_of(with_config(SETUP, chunk_tokens=8))
    request = Request("r", "m", prompt_of(20), SamplingParams(max_tokens=4, prompt_logprobs=True))
    scheduler = model.scheduler
    scheduler.add(request, 1.0)

    def step() -> None:
        plan = scheduler.plan(1.0)
        start, count = plan.starts[0], plan.counts[0]
        read = [float(position) for position in range(start + 1, min(start + count + 1, 20))]
        scheduler.commit(plan, StepResult([7] * sum(plan.samples), prompt_logprobs={0: read}), 1.0)

    step()
    step()
    assert scheduler.preempt_last(StepPlan("m"))
    while not request.is_ended:
        step()
    assert request.prompt_logprobs == [float(position) for position in range(1, 20)]


@pytest.mark.parametrize("chunk_tokens", [8, None])
def test_prompts_whose_logprobs_are_wanted_share_a_limit_of_tokens(chunk_tokens: int | None) -> None:
    """No step reads more logits of prompts; other requests pass those that wait for it."""
    _, model = world_of(with_config(SETUP, chunk_tokens=chunk_tokens, prompt_logprob_tokens=6))
    scheduler, most = model.scheduler, 0
    params = SamplingParams(max_tokens=2, prompt_logprobs=True)
    reading = [Request(f"r{number}", "m", prompt_of(20, number), params) for number in range(2)]
    other = Request("other", "m", prompt_of(7, 3), SamplingParams(max_tokens=1))
    for request in (*reading, other):
        scheduler.add(request, 1.0)
    while not all(request.is_ended for request in reading):
        plan = scheduler.plan(1.0)
        rows = list(zip(plan.requests, plan.starts, plan.counts, strict=True))
        read = {
            entry: [float(position) for position in range(start + 1, min(start + count + 1, 20))]
            for entry, (request, start, count) in enumerate(rows)
            if request is not other and start < 20
        }
        most = max(most, sum(count for entry, (_, _, count) in enumerate(rows) if entry in read))
        scheduler.commit(plan, StepResult([7] * sum(plan.samples), prompt_logprobs=read), 1.0)
        assert other.is_ended
    assert most == 6
    assert all(request.prompt_logprobs == [float(position) for position in range(1, 20)] for request in reading)


def test_logprobs_go_to_those_who_asked() -> None:
    _, model = world_of()
    scheduler = model.scheduler
    requests = [
        Request("asks", "m", [1, 2], SamplingParams(max_tokens=2, logprobs=1)),
        Request("does not", "m", [3, 4], SamplingParams(max_tokens=2)),
    ]
    for request in requests:
        scheduler.add(request, 1.0)
    plan = scheduler.plan(1.0)
    scheduler.commit(plan, StepResult([5, 6], logprobs=[-0.5, -0.7], top_logprobs=[[(5, -0.5)], None]), 1.0)
    assert requests[0].logprobs == [-0.5] and requests[0].top_logprobs == [[(5, -0.5)]]
    assert requests[1].logprobs == [] and [request.output for request in requests] == [[5], [6]]


def test_cached_tokens_are_counted_once_though_admission_fails_at_first() -> None:
    setup = ModelSetup((GroupSpec("full", 256),), 4)
    world, model = world_of(setup, num_slabs=4)
    world.add("m", prompt_of(16), 4)
    world.drain()
    world.add("m", prompt_of(30, 5), 30)
    world.step()
    again = world.add("m", [*prompt_of(16), *prompt_of(30, 6)], 2)
    world.drain()
    assert model.scheduler.counters.cached_tokens == again.num_cached_tokens
    world.check_outputs()
