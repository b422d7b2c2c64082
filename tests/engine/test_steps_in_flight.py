"""With several steps in flight every request answers what it answers with one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from antiphon.engine.core import EngineCore
from antiphon.engine.plan import StepHandle, StepPlan, StepResult
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from antiphon.executor.decoder.executor import DecoderExecutor
from support.engine.model_core import MODEL, VOCABULARY, make_core

PROMPT = [40, 41, 42, 43, 44]
LENGTH = 24


class CountingGrammar:
    """The token at position i has remainder i when divided by 7: a mask that is right for one position only."""

    def __init__(self) -> None:
        self.position = 0

    def advance(self, token: int) -> None:
        assert token % 7 == self.position % 7, f"token {token} at position {self.position}"
        self.position += 1

    def mask(self) -> np.ndarray:
        assert self.position < LENGTH, "a request that has ended asks for a mask"
        allowed = np.arange(VOCABULARY) % 7 == self.position % 7
        return np.packbits(allowed, bitorder="little")


def make_plain(**params: Any) -> Request:
    return Request("edited", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH, seed=5, **params))


def make_grammar() -> Request:
    request = make_plain()
    request.constraint = CountingGrammar()
    return request


def make_transcript() -> Request:
    """Timestamps are the ids from 200 on, in pairs that never go backwards, after two tokens of an opening."""
    request = make_plain(temperature=1.0)
    request.rules = TranscriptRules(
        begin=len(PROMPT) + 2, end_id=190, opening=((60, 61), (70,)), blank=frozenset({33}), first_timestamp=200
    )
    return request


def make_minimum() -> Request:
    """Its stop tokens are by far the likeliest, so it ends as soon as it has its minimum."""
    stops = frozenset(range(0, VOCABULARY, 2))
    request = make_plain(min_tokens=9, logit_bias=dict.fromkeys(stops, 100.0))
    request.stop_ids = stops
    return request


CASES: dict[str, Callable[[], Request]] = {
    "grammar": make_grammar,
    "transcript rules": make_transcript,
    "min_tokens": make_minimum,
    "frequency penalty": lambda: make_plain(frequency_penalty=2.0),
    "repetition penalty": lambda: make_plain(repetition_penalty=1.8, presence_penalty=0.7),
    "typical": lambda: make_plain(temperature=1.0, typical_p=0.5),
    "drawn at random": lambda: make_plain(temperature=1.2, top_p=0.9),
}


def answers(depth: int, make: Callable[[], Request], late_choice: bool = True) -> list[list[int]]:
    """The outputs of the request, and of a plain one beside it."""
    core, _ = make_core(depth, late_choice)
    requests = [make(), Request("plain", MODEL, PROMPT[:3], SamplingParams(max_tokens=LENGTH))]
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
        core.check_integrity()
    for request in requests:
        assert request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH), request.error
    return [request.output for request in requests]


@pytest.mark.parametrize("late_choice", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_depth_does_not_change_an_answer(name: str, late_choice: bool) -> None:
    expected = answers(1, CASES[name])
    assert len(expected[0]) == (10 if name == "min_tokens" else LENGTH)
    for depth in (2, 3):
        assert answers(depth, CASES[name], late_choice) == expected


def step_members(core: EngineCore, executor: DecoderExecutor, *requests: Request) -> list[set[str]]:
    """Run the requests; the ids of those in each step."""
    members: list[set[str]] = []
    submit = executor.submit

    def recorded(plan: StepPlan) -> Any:
        members.append({request.id for request in plan.requests})
        return submit(plan)

    executor.submit = recorded  # type: ignore[method-assign]
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
    return [step for step in members if step]


def test_only_requests_that_need_their_last_token_wait_for_it() -> None:
    """A plain request has a token in every step; a minimum that is reached holds back no longer."""
    plain = Request("plain", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH))
    reached = Request("reached", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH, min_tokens=4))
    steps = step_members(*make_core(depth=2, late_choice=False), plain, reached)
    assert sum("plain" in step for step in steps) == LENGTH
    assert len(steps) < 1.5 * LENGTH
    held_back = [step for step in steps[:8] if "reached" not in step]
    assert len(held_back) >= 3
    assert all("reached" in step for step in steps[9:LENGTH])


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("make", [make_grammar, make_transcript, make_minimum])
def test_with_a_late_choice_all_requests_share_every_step(make: Callable[[], Request], depth: int) -> None:
    """A mask is asked for after the commit of the token before it, so that no request waits a step."""
    masked = make()
    plain = Request("plain", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH))
    steps = step_members(*make_core(depth), masked, plain)
    both = len(masked.output)
    assert all(step == {"edited", "plain"} for step in steps[:both])
    assert len(steps) <= LENGTH + depth


@dataclass
class _NotedHandle:
    handle: StepHandle
    note: Callable[[str], None]

    def choose(self) -> None:
        self.note("choose")
        self.handle.choose()

    def done(self) -> bool:
        return self.handle.done()

    def result(self) -> StepResult:
        self.note("result")
        return self.handle.result()


@dataclass
class _NotedExecutor:
    """Notes what the loop calls, with the number of tokens that the request has by then."""

    executor: DecoderExecutor
    request: Request
    calls: list[tuple[str, int]] = field(default_factory=list)

    def submit(self, plan: StepPlan) -> _NotedHandle:
        self.note("submit")
        return _NotedHandle(self.executor.submit(plan), self.note)

    def note(self, name: str) -> None:
        self.calls.append((name, self.request.num_output_tokens))

    def close(self) -> None:
        self.executor.close()


def calls(depth: int, request: Request) -> list[tuple[str, int]]:
    core, executor = make_core(depth)
    noted = _NotedExecutor(executor, request)
    core.slots[MODEL].executor = noted
    core.add(request)
    while core.has_work:
        core.step()
    return noted.calls


def test_the_order_of_calls() -> None:
    """With two steps in flight the forward pass comes before the commit of the step before, and the choice after it."""
    assert calls(1, make_grammar())[:6] == [
        ("submit", 0), ("choose", 0), ("result", 0), ("submit", 1), ("choose", 1), ("result", 1)
    ]  # fmt: skip
    assert calls(2, make_grammar())[:8] == [
        ("submit", 0), ("choose", 0), ("submit", 0), ("result", 0), ("choose", 1), ("submit", 1), ("result", 1),
        ("choose", 2),
    ]  # fmt: skip
    assert calls(2, make_plain(frequency_penalty=1.0))[:5] == [
        ("submit", 0), ("choose", 0), ("submit", 0), ("choose", 0), ("result", 0)
    ], "tokens that depend on nothing committed are drawn at once"  # fmt: skip


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_failing_choice_fails_only_the_requests_of_its_step(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    core, executor = make_core(depth)
    sample = executor._sampler.sample
    failing = make_grammar()
    later = Request("plain", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH))

    def fails(plan: StepPlan, *rest: Any) -> StepResult:
        if failing in plan.requests and failing.num_output_tokens == 3:
            raise RuntimeError("no choice")
        return sample(plan, *rest)

    monkeypatch.setattr(executor._sampler, "sample", fails)
    core.add(failing)
    while not failing.is_ended:
        core.step()
        core.check_integrity()
    assert (failing.finish_reason, failing.error) == (FinishReason.FAILED, "RuntimeError: no choice")
    core.add(later)
    while core.has_work:
        core.step()
        core.check_integrity()
    assert later.finish_reason is FinishReason.LENGTH
