"""First-come-first-served policy."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import Request


class FirstComeFirstServed(Policy):
    """Policy by order of arrival; the latest request is preempted first. Priorities are ignored."""

    def rank(self, request: Request) -> tuple[float, ...]:
        return (request.sequence,)

    def next_waiting(self, waiting: Iterable[Request], now: float) -> Request:
        """Return the oldest request. A preempted request keeps its position in the order of arrival."""
        return min(waiting, key=_sequence)


def _sequence(request: Request) -> int:
    return request.sequence
