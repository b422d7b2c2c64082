"""A new scheduling policy is one class and one registry line."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon import Engine, SamplingParams
from antiphon.engine.policies.policy import Policy
from antiphon.engine.policies.registry import POLICIES
from antiphon.engine.request import Request
from antiphon.errors import InvalidRequestError


class LastComeFirstServed(Policy):
    """The latest arrival first."""

    def rank(self, request: Request) -> tuple[float, ...]:
        return (-request.sequence,)


def order_of_ends(model: Path, policy: str) -> list[int]:
    """Prompt lengths of requests that arrive together and are computed one after the other, as they end."""
    with Engine(str(model), kv_bytes=4 << 20, policy=policy, max_running=1) as engine:
        engine.generate([[1] * length for length in (2, 3, 4, 5)], SamplingParams(max_tokens=3))
        return [record.prompt_tokens for record in engine._core.telemetry.requests]


def test_it_decides_the_order(tiny_llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, "toy", lambda _: LastComeFirstServed())
    assert order_of_ends(tiny_llama, "fcfs") == [2, 3, 4, 5]
    assert order_of_ends(tiny_llama, "toy") == [5, 4, 3, 2]


def test_a_policy_without_a_line_is_rejected() -> None:
    with pytest.raises(InvalidRequestError, match="unknown scheduling policy 'toy'; there are: fcfs, priority, adapt"):
        Engine(policy="toy")
