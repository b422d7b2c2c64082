"""Priority policy: critical before high before normal before low, with ageing so that no request starves."""

from __future__ import annotations

from collections.abc import Iterable

from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import Priority, Request


class PriorityPolicy(Policy):
    """Policy by priority level; each `ageing_seconds` of waiting raise a request by one level.

    A critical request may displace a normal or low one. Within a level, the request with the earliest `due` time goes
    first; a request without one is due on arrival. A request does not age before it is due. With `ageing_seconds` of
    None, no request ages.
    """

    displaces = True

    def __init__(self, ageing_seconds: float | None = 10.0) -> None:
        self.ageing_seconds = ageing_seconds

    def rank(self, request: Request) -> tuple[float, ...]:
        return (request.priority, _due(request), request.sequence)

    def _level(self, request: Request, now: float) -> float:
        if self.ageing_seconds is None:
            return float(request.priority)
        waited = max(0.0, now - max(request.marks.arrived, _due(request)))
        return request.priority - waited // self.ageing_seconds

    def next_waiting(self, waiting: Iterable[Request], now: float) -> Request:
        return min(waiting, key=lambda request: (self._level(request, now), _due(request), request.sequence))

    def may_displace(self, waiting: Request, running: Request, now: float) -> bool:
        return waiting.priority is Priority.CRITICAL and running.priority >= Priority.NORMAL


def _due(request: Request) -> float:
    return request.marks.arrived if request.due is None else request.due
