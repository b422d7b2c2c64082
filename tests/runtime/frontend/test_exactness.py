"""Whatever the schedule, every request gets exactly the tokens it gets alone."""

from __future__ import annotations

import random

import pytest

from antiphon import ops
from antiphon.engine.sampling_params import SamplingParams
from antiphon.runtime.loading.loading import LoadedModel, load_model
from support.engine.schedules import Outcome, run_alone, run_schedule

pytestmark = pytest.mark.skipif("native" not in ops.available_backends(), reason="needs batch-invariant kernels")

WORDS = [
    "once",
    "upon",
    "a",
    "time",
    "there",
    "was",
    "a",
    "little",
    "cat",
    "who",
    "saw",
    "the",
    "big",
    "red",
    "ball",
    "and",
    "ran",
    "to",
    "Tom",
    "and",
    "Lily",
    "in",
    "the",
    "park",
]


def make_prompts(loaded: LoadedModel, count: int, longest: int, seed: int) -> list[list[int]]:
    """Mixed lengths; a third share beginnings, so that the prefix cache has work."""
    source = random.Random(seed)
    prompts: list[list[int]] = []
    for _ in range(count):
        length = source.randint(1, longest)
        text = " ".join(source.choice(WORDS) for _ in range(longest))
        ids = loaded.tokenizer.encode(text)[:length]
        if prompts and source.random() < 0.35:
            shared = source.choice(prompts)
            ids = (shared[: source.randint(1, len(shared))] + ids)[:longest]
        prompts.append(ids)
    return prompts


def check(loaded: LoadedModel, schedules: int, prompts_each: int, pool: int, longest: int, max_tokens: int) -> Outcome:
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    prompts = make_prompts(loaded, pool, longest, seed=1)
    expected = [run_alone(loaded, prompt, params) for prompt in prompts]
    total = Outcome()
    for seed in range(schedules):
        chosen = random.Random(seed).sample(range(pool), prompts_each)
        total.add(run_schedule(loaded, [prompts[i] for i in chosen], [expected[i] for i in chosen], params, seed))
        assert total.wrong == []
    print(total)
    return total


@pytest.mark.long("thirty random schedules, and each prompt alone")
def test_random_schedules_of_a_tiny_model(tiny_loaded: LoadedModel) -> None:
    total = check(tiny_loaded, schedules=30, prompts_each=6, pool=12, longest=40, max_tokens=12)
    assert total.finished > 100 and total.cancelled > 5
    assert total.preemptions > 30 and total.swaps > 5 and total.cached_tokens > 200 and total.forks > 20


@pytest.mark.slow
@pytest.mark.weights
def test_random_schedules_of_stories(soak: bool) -> None:
    loaded = load_model("stories-15m")
    total = check(
        loaded, schedules=400 if soak else 8, prompts_each=5, pool=64 if soak else 10, longest=40, max_tokens=8
    )
    assert total.preemptions > 0 and total.swaps > 0


@pytest.mark.slow
@pytest.mark.weights
def test_many_prompts_at_once_on_stories(soak: bool) -> None:
    loaded = load_model("stories-15m")
    count = 64 if soak else 20
    check(loaded, schedules=20 if soak else 1, prompts_each=count, pool=count, longest=60, max_tokens=8)


@pytest.mark.slow
@pytest.mark.weights
def test_a_few_schedules_of_smollm2() -> None:
    loaded = load_model("smollm2-135m")
    check(loaded, schedules=2, prompts_each=4, pool=4, longest=30, max_tokens=6)
