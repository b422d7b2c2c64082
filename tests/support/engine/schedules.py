"""Random schedules over a real model on a bare engine core: arrivals, cancellations, priorities, forks, tiny pools."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from antiphon.engine.core import EngineCore
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.decoder import cache_layouts
from antiphon.runtime.slots.resident import make_slots


def run_alone(loaded: LoadedModel, prompt: list[int], params: SamplingParams) -> list[int]:
    """Return the output of a request that has the engine to itself and whose prompt is computed in one chunk."""
    config = EngineConfig(
        kv_bytes=64 << 20, key_type="fp32", value_type="fp32", chunk_tokens=None, max_running=1, prefix_caching=False
    )
    core = EngineCore()
    (slot,) = make_slots(loaded, Arena.allocate(config), config)
    core.add_model(slot)
    request = Request("alone", loaded.name, prompt, params)
    core.add(request)
    while core.has_work:
        core.step()
    assert request.finish_reason is FinishReason.LENGTH, request.error
    return request.output


@dataclass
class Outcome:
    """Counts of events, so that a test can check that its schedules were demanding."""

    finished: int = 0
    cancelled: int = 0
    preemptions: int = 0
    swaps: int = 0
    cached_tokens: int = 0
    forks: int = 0
    steps: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def random_config(source: random.Random, loaded: LoadedModel, longest: int) -> EngineConfig:
    """Return a random config, from roomy to so small that requests preempt each other all the time."""
    block_tokens = source.choice([4, 8, 16])
    probe = EngineConfig(key_type="fp32", value_type="fp32", block_tokens=block_tokens)
    layouts = cache_layouts(loaded.causal_lm().cache_groups(), probe)
    largest = max(layout.block_bytes for layout in layouts)
    slab_bytes = largest * source.choice([1, 2, 5])
    per_request = sum(-(-(longest + 1) // block_tokens) * layout.block_bytes for layout in layouts)
    slabs = -(-int(per_request * source.choice([1.0, 1.3, 2.0, 6.0])) // slab_bytes) + len(layouts)
    return EngineConfig(
        kv_bytes=slabs * slab_bytes,
        slab_bytes=slab_bytes,
        key_type="fp32",
        value_type="fp32",
        block_tokens=block_tokens,
        prefix_caching=source.random() < 0.7,
        policy=source.choice(["fcfs", "priority", "adaptive"]),
        max_running=source.choice([1, 2, 4, 16]),
        max_step_tokens=source.choice([8, 32, 256]),
        chunk_tokens=source.choice([1, 3, 16, 64, None]),
        preemption=source.choice(["recompute", "swap"]),
        swap_bytes=source.choice([0, 1 << 20, 1 << 30]),
    )


def run_schedule(
    loaded: LoadedModel,
    prompts: list[list[int]],
    expected: list[list[int]],
    params: SamplingParams,
    seed: int,
) -> Outcome:
    """Run a random schedule of the prompts and record wrong answers.

    A finished answer must equal the expected one; a cancelled answer must be a prefix of it.
    """
    source = random.Random(seed)
    longest = max(len(prompt) for prompt in prompts) + params.max_tokens
    config = random_config(source, loaded, longest)
    core = EngineCore()
    arena = Arena.allocate(config)
    (slot,) = make_slots(loaded, arena, config)
    core.add_model(slot)
    outcome = Outcome()
    waiting = list(range(len(prompts)))
    source.shuffle(waiting)
    live: list[tuple[int, Request]] = []
    everyone: list[tuple[int, Request]] = []
    while waiting or core.has_work:
        while waiting and (not core.has_work or source.random() < 0.4):
            index = waiting.pop()
            parent: Request | None = None
            for copy in range(source.choice([1, 1, 1, 2, 3])):
                request = Request(
                    f"{index}.{copy}", loaded.name, prompts[index], params,
                    priority=source.choice(list(Priority)), fork_of=parent,
                )  # fmt: skip
                parent = parent or request
                outcome.forks += copy > 0
                core.add(request)
                live.append((index, request))
                everyone.append((index, request))
        if live and source.random() < 0.03:
            core.abort(source.choice(live)[1].id)
        core.step()
        core.check_integrity()
        outcome.steps += 1
        live = [(index, request) for index, request in live if not request.is_ended]
    for index, request in everyone:
        tokens = request.output
        if request.finish_reason is FinishReason.CANCELLED:
            outcome.cancelled += 1
        else:
            outcome.finished += 1
            if request.finish_reason is not FinishReason.LENGTH:
                outcome.wrong.append(f"seed {seed}, request {request.id}: {request.finish_reason} {request.error}")
        good = tokens == expected[index][: len(tokens)] and (
            request.finish_reason is FinishReason.CANCELLED or len(tokens) == len(expected[index])
        )
        if not good:
            outcome.wrong.append(f"seed {seed}, request {request.id}: {tokens} is not {expected[index]}; {config}")
        outcome.preemptions += request.marks.preemptions
        outcome.cached_tokens += request.num_cached_tokens
    scheduler = core.slots[loaded.name].scheduler
    outcome.swaps = scheduler.counters.swaps_in  # type: ignore[attr-defined]
    core.remove_model(loaded.name)
    assert arena.books.lent_bytes == 0
    return outcome
