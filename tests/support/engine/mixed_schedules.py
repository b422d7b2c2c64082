"""Random schedules of requests of every kind on the tiny model, with their expected answers."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

from antiphon.engine.core import EngineCore
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Priority, Request
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.executor.decoder.executor import DecoderExecutor
from support.engine.mixed_requests import KINDS, answer_of
from support.engine.model_core import BLOCK_TOKENS, PLAIN, SLAB_BLOCKS, Cached, make_core

#: Prompts, some of which share a prefix, for the prefix cache.
PROMPTS = [
    [40, 41, 42, 43, 44],
    [*range(30, 50)],
    [*range(30, 43), 77, 78],
    [90],
    [*range(30, 50), 101, 102, 103],
]
#: Number of blocks that the longest request takes.
LONGEST_BLOCKS = -(-(max(map(len, PROMPTS)) + 18) // BLOCK_TOKENS)


@cache
def expected(kind: str, prompt: int, cached: Cached = PLAIN) -> list[tuple[Any, ...]]:
    """Return the answers of requests of a kind that have the engine to themselves, one step at a time."""
    core, _ = make_core(prefix_caching=False, cached=cached)
    requests = KINDS[kind]("alone", PROMPTS[prompt])
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    return [answer_of(request) for request in requests]


def random_core(
    source: random.Random, depth: int, cached: Cached = PLAIN, draft_noise: float | None = None
) -> tuple[EngineCore, DecoderExecutor]:
    """Build a core of random size, from roomy to so small that requests preempt each other all the time."""
    config = SchedulerConfig(
        max_running=source.choice([3, 4, 8]),
        max_step_tokens=source.choice([4, 16, 256]),
        chunk_tokens=source.choice([1, 3, 16, None]),
        preemption=source.choice(list(Preemption)),
        swap_bytes=source.choice([0, 1 << 30]),
    )
    blocks = int(LONGEST_BLOCKS * source.choice([1.0, 1.5, 3.0, 8.0]))
    return make_core(
        depth,
        config=config,
        policy=make_policy(source.choice(["fcfs", "priority", "adaptive"])),
        num_slabs=-(-blocks // SLAB_BLOCKS) + 1,
        prefix_caching=source.random() < 0.7,
        cached=cached,
        draft_noise=draft_noise,
    )


def new_seeds(count: int) -> range:
    """Return seeds that earlier runs did not use, for randomised tests that are repeated."""
    first = random.SystemRandom().randrange(1 << 40)
    return range(first, first + count)


#: Kind, index of the prompt, and the requests built for them.
Case = tuple[str, int, list[Request]]


def run_cases(
    core: EngineCore, source: random.Random, prepare: Callable[[str, int, list[Request]], None] = lambda *_: None
) -> tuple[list[Case], int]:
    """Submit and cancel requests of random kinds at random, each after `prepare`; return them and the step count."""
    cases = [(kind, source.randrange(len(PROMPTS))) for kind in source.choices(list(KINDS), k=10)]
    everyone: list[Case] = []
    steps = 0
    while cases or core.has_work:
        while cases and (not core.has_work or source.random() < 0.3):
            kind, prompt = cases.pop()
            requests = KINDS[kind](f"{kind} {len(everyone)}", PROMPTS[prompt])
            priority = source.choice(list(Priority))
            prepare(kind, prompt, requests)
            for request in requests:
                request.priority = priority
                core.add(request)
            everyone.append((kind, prompt, requests))
        live = [request for _, _, requests in everyone for request in requests if not request.is_ended]
        if live and source.random() < 0.03:
            core.abort(source.choice(live).id)
        core.step()
        core.check_integrity()
        steps += 1
    return everyone, steps
