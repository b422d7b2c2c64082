"""With several steps in flight every request answers what it answers with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.transcript_rules import TranscriptRules
from support.model_core import MODEL, VOCABULARY, make_core

PROMPT = [40, 41, 42, 43, 44]
LENGTH = 24


class CountingGrammar:
    """The token of place i has remainder i when divided by 7: a mask that is right for one place only."""

    def __init__(self) -> None:
        self.place = 0

    def advance(self, token: int) -> None:
        assert token % 7 == self.place % 7, f"token {token} at place {self.place}"
        self.place += 1

    def mask(self) -> np.ndarray:
        allowed = np.arange(VOCABULARY) % 7 == self.place % 7
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


def answers(depth: int, make: Callable[[], Request]) -> list[list[int]]:
    """The outputs of the request, and of a plain one beside it."""
    core, _ = make_core(depth)
    requests = [make(), Request("plain", MODEL, PROMPT[:3], SamplingParams(max_tokens=LENGTH))]
    for request in requests:
        core.add(request)
    while core.has_work:
        core.step()
        core.check_integrity()
    for request in requests:
        assert request.finish_reason in (FinishReason.STOP, FinishReason.LENGTH), request.error
    return [request.output for request in requests]


@pytest.mark.parametrize("name", CASES)
def test_depth_does_not_change_an_answer(name: str) -> None:
    expected = answers(1, CASES[name])
    assert len(expected[0]) == (10 if name == "min_tokens" else LENGTH)
    for depth in (2, 3):
        assert answers(depth, CASES[name]) == expected


def test_only_requests_that_need_their_last_token_wait_for_it() -> None:
    """A plain request has a token in every step; a minimum that is reached holds back no longer."""
    core, executor = make_core(depth=2)
    plain = Request("plain", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH))
    reached = Request("reached", MODEL, PROMPT, SamplingParams(max_tokens=LENGTH, min_tokens=4))
    members: list[set[str]] = []
    submit = executor.submit

    def recorded(plan: Any) -> Any:
        members.append({request.id for request in plan.requests})
        return submit(plan)

    executor.submit = recorded  # type: ignore[method-assign]
    for request in (plain, reached):
        core.add(request)
    while core.has_work:
        core.step()
    steps = [step for step in members if step]
    assert sum("plain" in step for step in steps) == LENGTH
    assert len(steps) < 1.5 * LENGTH
    held_back = [step for step in steps[:8] if "reached" not in step]
    assert len(held_back) >= 3
    assert all("reached" in step for step in steps[9:LENGTH])
