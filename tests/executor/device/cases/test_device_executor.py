"""Two steps in flight on a device: every answer is the one of the CPU's executor, one step at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch

from antiphon import ops
from antiphon.engine.core import EngineCore
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.scheduler import Scheduler
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig
from antiphon.engine.speculation.speculator import Speculator
from antiphon.ops import Device
from antiphon.ops.device import DeviceLimits
from antiphon.ops.triton.program.choice import Draw
from support.engine.device_cores import device_core
from support.engine.mixed_requests import KINDS, CountingGrammar, answer_of, is_beginning, request
from support.engine.model_core import MODEL, make_core
from support.engine.running import run

PROMPTS = [[40, 41, 42], [*range(30, 39)], [90]]
LENGTH = 5
#: test_triton_program.py has steps of two layers.
LAYERS = 1
Make = Callable[[], list[Request]]


@pytest.fixture
def device() -> Iterator[Device]:
    """In fp32, so that tokens are the CPU's."""
    target = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    with ops.use_backend("triton"):
        yield Device(target, ops.get_backend("triton"), torch.float32, DeviceLimits("a card", 0))


def expected(make: Make) -> list[tuple[Any, ...]]:
    """The answers of the same requests, each alone with the CPU's executor."""
    with ops.use_backend(ops.available_backends()[0]):
        core, _ = make_core(prefix_caching=False, layers=LAYERS)
        requests = make()
        run(core, requests)
    return [answer_of(made) for made in requests]


def check(device: Device, make: Make, draws: set[Draw] | None = None, **options: Any) -> EngineCore:
    """Run the requests on the device; `draws` are the kinds of draws that the graphs of the steps must have."""
    answers = expected(make)
    core, executor = device_core(device, layers=LAYERS, **options)
    requests = make()
    run(core, requests)
    for made, answer in zip(requests, answers, strict=True):
        *texts, readings = answer_of(made)
        assert texts == list(answer[:-1]), made.id
        # Tensor cores round fp32 factors.
        assert readings == pytest.approx(answer[-1], abs=2e-3 if device.is_cpu else 5e-2), made.id
    assert executor._swap.num_bytes == 0
    assert executor._graphs is not None
    assert draws is None or {key.draw for key in executor._graphs._steps} == draws
    executor.close()
    return core


def grammatical(made: Request) -> Request:
    made.constraint = CountingGrammar(made)
    return made


def test_tokens_that_the_graph_draws(device: Device) -> None:
    """Greedy and drawn from all of the vocabulary; they end one after the other."""
    check(
        device,
        lambda: [
            request("greedy", PROMPTS[0], max_tokens=LENGTH),
            request("drawn", PROMPTS[2], max_tokens=LENGTH - 1, temperature=0.9, seed=3),
        ],
        {Draw.PLAIN},
    )


def test_tokens_that_the_graph_draws_from_a_part_of_the_vocabulary(device: Device) -> None:
    """The last steps are those of the greedy request, whose top-k changes nothing."""
    check(
        device,
        lambda: [
            request("greedy", PROMPTS[0], max_tokens=LENGTH - 1, top_k=3),
            request("top-k", PROMPTS[2], max_tokens=LENGTH - 2, temperature=1.5, top_k=4, seed=1),
            request("all", PROMPTS[0], max_tokens=LENGTH - 2, temperature=1.2, top_k=9, top_p=0.8, min_p=0.1, seed=4),
        ],
        {Draw.PLAIN, Draw.FILTERED},
    )


def test_tokens_that_the_sampler_draws(device: Device) -> None:
    """A part of the vocabulary, edits, masks that follow the last token, and log-probabilities, in one batch."""
    check(
        device,
        lambda: [
            request("filtered", PROMPTS[0], max_tokens=LENGTH, temperature=0.9, top_k=20, top_p=0.9, min_p=0.01),
            request("penalties", PROMPTS[2], max_tokens=LENGTH, frequency_penalty=1.5, repetition_penalty=1.3),
            grammatical(request("grammar", PROMPTS[0], max_tokens=LENGTH)),
            request("logprobs", PROMPTS[2], max_tokens=LENGTH, logprobs=2, temperature=0.7, seed=6),
        ],
        {Draw.NOTHING},
    )


def test_a_prompt_in_chunks_beside_decodes_and_forks(device: Device) -> None:
    def make() -> list[Request]:
        made = [request("first", PROMPTS[2], max_tokens=LENGTH)]
        for seed in range(2):
            fork = request(f"fork {seed}", PROMPTS[1], max_tokens=2, temperature=0.9, seed=seed)
            fork.fork_of = made[1] if seed else None
            made.append(fork)
        return made

    check(device, make, config=SchedulerConfig(max_running=4, chunk_tokens=5))


def test_a_request_that_is_swapped_out_continues(device: Device) -> None:
    config = SchedulerConfig(max_running=3, preemption=Preemption.SWAP)
    core = check(
        device,
        lambda: [request(f"{row}", PROMPTS[0], max_tokens=7, temperature=0.8, seed=row) for row in range(2)],
        config=config,
        num_slabs=1,
        prefix_caching=False,
    )
    scheduler = core.slots[MODEL].scheduler
    assert isinstance(scheduler, Scheduler)
    assert scheduler.counters.swaps_in > 0


def test_a_cancelled_request_leaves_the_others_alone(device: Device) -> None:
    def make() -> list[Request]:
        return [request("stays", PROMPTS[0], max_tokens=3), request("goes", PROMPTS[2], max_tokens=8)]

    answers = expected(make)
    core, executor = device_core(device, layers=LAYERS)
    stays, goes = make()
    core.add(stays)
    core.add(goes)
    while not goes.num_output_tokens:
        core.step()
    core.abort("goes")
    while core.has_work:
        core.step()
    assert answer_of(stays) == answers[0]
    assert goes.finish_reason is FinishReason.CANCELLED and is_beginning(goes, answers[1])
    executor.close()


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_request(device: Device, kind: str) -> None:
    check(device, lambda: [made for index in (0, 2) for made in KINDS[kind](f"{kind} {index}", PROMPTS[index])])


def test_drafts_beside_a_plain_request(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses that are right up to a position, of requests with edits and without; the lengths of rows follow them."""

    def make() -> list[Request]:
        return [
            request("greedy", PROMPTS[0], max_tokens=LENGTH),
            request("drawn", PROMPTS[2], max_tokens=LENGTH, temperature=0.9, seed=3),
            request("penalties", PROMPTS[2], max_tokens=LENGTH, frequency_penalty=1.5, repetition_penalty=1.3),
            grammatical(request("grammar", PROMPTS[0], max_tokens=LENGTH)),
            request("logprobs", PROMPTS[2], max_tokens=LENGTH, logprobs=2, temperature=0.7, seed=6),
            request("plain", PROMPTS[0], max_tokens=LENGTH),
        ]

    monkeypatch.setattr(Speculator, "_lengths", lambda _, drafts, *rest: [len(draft.tokens) for draft in drafts])
    answers = expected(make)
    core, executor = device_core(device, layers=LAYERS)
    core.slots[MODEL].depth = 1
    requests = make()
    for index, (made, answer) in enumerate(zip(requests, answers, strict=True)):
        made.speculates = made.id != "plain"
        made.guess = [token + (at == 3 and index % 2 == 0) for at, token in enumerate(answer[0])]
    run(core, requests)
    for made, answer in zip(requests, answers, strict=True):
        assert made.output == answer[0], made.id
        assert bool(made.drafted.accepted) is made.speculates, made.id
    assert any(made.drafted.accepted < made.drafted.proposed for made in requests)
    executor.close()


@pytest.mark.parametrize("depth", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_drafts_that_the_graph_verifies(device: Device, monkeypatch: pytest.MonkeyPatch, depth: int) -> None:
    """Requests without edits: drafted tokens are rows of a decode step, whose tokens the graph draws."""

    def make() -> list[Request]:
        return [
            request("greedy", PROMPTS[0], max_tokens=8),
            request("drawn", PROMPTS[2], max_tokens=8, temperature=0.9, seed=3),
            request("of a part", PROMPTS[2], max_tokens=8, temperature=0.9, top_p=0.8, top_k=20, seed=5),
            request("plain", PROMPTS[0], max_tokens=8, temperature=1.1, seed=7),
        ]

    monkeypatch.setattr(Speculator, "_lengths", lambda _, drafts, *rest: [len(draft.tokens) for draft in drafts])
    waits = itertools.cycle([True, True, False])

    def some_wait(_: Speculator, running: Sequence[Request]) -> set[int]:
        return {id(made) for made in running if made.speculates and next(waits)}

    monkeypatch.setattr(Speculator, "waiting", some_wait)
    answers = expected(make)
    core, executor = device_core(device, layers=LAYERS)
    core.slots[MODEL].depth = depth
    requests = make()
    for index, (made, answer) in enumerate(zip(requests, answers, strict=True)):
        made.speculates = made.id != "plain"
        made.guess = [token + (at == 3 and index % 2 == 0) for at, token in enumerate(answer[0])]
    run(core, requests)
    for made, answer in zip(requests, answers, strict=True):
        assert made.output == answer[0], made.id
        assert bool(made.drafted.accepted) is made.speculates, made.id
    assert any(made.drafted.accepted < made.drafted.proposed for made in requests)
    assert executor._graphs is not None
    draws = {key.draw for key in executor._graphs._steps if key.is_chained}
    assert Draw.FILTERED in draws and Draw.NOTHING not in draws, draws
    executor.close()


def test_a_draft_model(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model drafts for itself, several tokens in one step: all are right, greedy and drawn."""

    def make() -> list[Request]:
        return [
            request("greedy", PROMPTS[0], max_tokens=LENGTH),
            request("drawn", PROMPTS[2], max_tokens=LENGTH, temperature=0.9, seed=3),
        ]

    def passes(speculator: Speculator, requests: list[Request], *_: int) -> tuple[list[Request], int]:
        for made in requests:
            speculator._search(made)
        return requests, 2

    monkeypatch.setattr(Speculator, "passes", passes)
    monkeypatch.setattr(Speculator, "_lengths", lambda _, drafts, *rest: [len(draft.tokens) for draft in drafts])
    answers = expected(make)
    core, _ = device_core(device, draft_noise=0.0, layers=LAYERS)
    requests = make()
    for made in requests:
        made.speculates = made.uses_draft_model = True
    run(core, requests)
    for made, answer in zip(requests, answers, strict=True):
        assert made.output == answer[0], made.id
        assert made.drafted.accepted == made.drafted.proposed > 0, made.id
    core.remove_model(MODEL)
