"""The interface of scheduling policies. Each policy is a small class of its own; the scheduler does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from antiphon.engine.cost_model import CostModel
from antiphon.engine.request import Request


@dataclass(frozen=True, slots=True)
class StepView:
    """What is known when the prefill share of a step is chosen."""

    now: float
    decodes: int
    attended_tokens: int  # cached tokens that the decodes' attention reads
    oldest_wait: float  # seconds that the longest-waiting request has been without a first token
    cap: int  # tokens that are left of the step's cap
    cost: CostModel
    prefill_start: int = 0  # position at which the first request with more to prefill continues


class Policy(ABC):
    """Order, preemption and prefill share. A policy holds no request."""

    #: Whether `may_displace` can ever return True.
    displaces: ClassVar[bool] = False

    @abstractmethod
    def rank(self, request: Request) -> tuple[float, ...]:
        """Order among running requests; fixed for a request's life. The last is the first to be preempted."""

    def next_waiting(self, waiting: Iterable[Request], now: float) -> Request:
        """The request to admit next. `waiting` is not empty and in order of arrival."""
        return min(waiting, key=self.rank)

    def may_displace(self, waiting: Request, running: Request, now: float) -> bool:
        """Whether a waiting request may take the row or the blocks of a running one."""
        return False

    def prefill_tokens(self, view: StepView) -> int:
        """How many tokens of this step may go to requests that are more than one behind."""
        return view.cap
