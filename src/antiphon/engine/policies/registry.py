"""Registry of scheduling policies by name. A new policy is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.engine.policies.adaptive import AdaptivePolicy
from antiphon.engine.policies.fcfs import FirstComeFirstServed
from antiphon.engine.policies.policy import Policy
from antiphon.engine.policies.priority import PriorityPolicy
from antiphon.errors import InvalidRequestError

DEFAULT_TPOT_TARGET = 0.1


@dataclass(frozen=True)
class PolicyOptions:
    """Settings that policies may read; times are in seconds."""

    ageing_seconds: float | None
    tpot_target: float
    ttft_target: float | None


#: Factories of policies by name.
POLICIES: dict[str, Callable[[PolicyOptions], Policy]] = {
    "fcfs": lambda _: FirstComeFirstServed(),
    "priority": lambda options: PriorityPolicy(options.ageing_seconds),
    "adaptive": lambda options: AdaptivePolicy(options.tpot_target, options.ttft_target, options.ageing_seconds),
}


def make_policy(
    name: str,
    *,
    ageing_seconds: float | None = 10.0,
    tpot_target: float = DEFAULT_TPOT_TARGET,
    ttft_target: float | None = None,
) -> Policy:
    """Return the named policy; times are in seconds."""
    if name not in POLICIES:
        raise InvalidRequestError(f"unknown scheduling policy {name!r}; there are: {', '.join(POLICIES)}")
    return POLICIES[name](PolicyOptions(ageing_seconds, tpot_target, ttft_target))
