"""Interface of scheduling policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from antiphon.engine.cost_model import CostModel
from antiphon.engine.request import Request


@dataclass(frozen=True, slots=True)
class StepView:
    """State of a step when its prefill share is chosen."""

    now: float
    decodes: int
    attended_tokens: int  # cached tokens that the decodes' attention reads
    oldest_wait: float  # longest wait of a request for its first token, in seconds
    cap: int  # tokens left in the step
    cost: CostModel
    prefill_start: int = 0  # position at which the first unfinished prefill continues


class Policy(ABC):
    """Order, preemption and prefill share of requests. A policy holds no request."""

    #: Whether `may_displace` can ever return True.
    displaces: ClassVar[bool] = False

    @abstractmethod
    def rank(self, request: Request) -> tuple[float, ...]:
        """Return the sort key of a running request, constant for its life. The last request is preempted first."""

    def next_waiting(self, waiting: Iterable[Request], now: float) -> Request:
        """Return the request to admit next. `waiting` is not empty and in order of arrival."""
        return min(waiting, key=self.rank)

    def may_displace(self, waiting: Request, running: Request, now: float) -> bool:
        """Return whether a waiting request may take the row or the blocks of a running one."""
        return False

    def prefill_tokens(self, view: StepView) -> int:
        """Return the maximum number of this step's tokens for requests that are more than one token behind."""
        return view.cap
