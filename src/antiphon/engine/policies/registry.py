"""Policies by name. A new one is a new file and one line here."""

from __future__ import annotations

from antiphon.engine.policies.adaptive import AdaptivePolicy
from antiphon.engine.policies.fcfs import FirstComeFirstServed
from antiphon.engine.policies.policy import Policy
from antiphon.engine.policies.priority import PriorityPolicy
from antiphon.errors import InvalidRequestError

DEFAULT_TPOT_TARGET = 0.1


def make_policy(
    name: str,
    *,
    ageing_seconds: float | None = 10.0,
    tpot_target: float = DEFAULT_TPOT_TARGET,
    ttft_target: float | None = None,
) -> Policy:
    """The policy of that name; targets are seconds."""
    if name == "fcfs":
        return FirstComeFirstServed()
    if name == "priority":
        return PriorityPolicy(ageing_seconds)
    if name == "adaptive":
        return AdaptivePolicy(tpot_target, ttft_target, ageing_seconds)
    raise InvalidRequestError(f"unknown scheduling policy {name!r}; there are: fcfs, priority, adaptive")
