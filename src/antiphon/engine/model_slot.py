"""`ModelSlot`: a resident model as the loop sees it, with its steps in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.engine.device_lane import TurnClock
from antiphon.engine.plan import Executor, StepHandle, StepPlan, StepResult
from antiphon.engine.request import FinishReason, Priority, Request

#: Above this many requests, a decoder's step on a CPU gains nothing from a larger batch.
FEED_REQUESTS = 16


class ModelScheduler(Protocol):
    """The scheduler of a model as the loop uses it: `Scheduler`, or `OneShotScheduler` for one-shot requests."""

    @property
    def has_work(self) -> bool: ...

    def add(self, request: Request, now: float) -> None: ...

    def abort(self, request_id: str, reason: FinishReason, now: float) -> bool: ...

    def best_priority(self) -> Priority | None: ...

    def plan(self, now: float) -> StepPlan: ...

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None: ...

    def observe(self, plan: StepPlan, seconds: float) -> None: ...

    def fail(self, plan: StepPlan, error: str, now: float) -> None: ...

    def shrink(self, plan: StepPlan) -> bool:
        """A step ran out of memory: run its requests again in steps of half the size; False if that cannot be."""

    def preempt_last(self, plan: StepPlan) -> bool: ...

    def figures(self) -> tuple[int, int, int, int, int]:
        """Running, waiting, and blocks free, cached and owned."""

    def requests(self) -> list[Request]:
        """All requests that have not ended, and those that ended while a step of theirs is in flight."""

    def check_integrity(self) -> None: ...

    def close(self, now: float) -> None: ...


@dataclass(slots=True, eq=False)
class InFlight:
    """A step that was submitted and is not committed yet."""

    plan: StepPlan
    handle: StepHandle
    started: float
    plan_seconds: float
    is_chosen: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether no other step can be planned before it is committed, or before those in front of it are."""
        return self.plan.is_awaited or not self.is_chosen


@dataclass(slots=True, eq=False)
class ModelSlot:
    """A resident model: its scheduler, its executor, and the time it has used."""

    name: str
    scheduler: ModelScheduler
    executor: Executor
    depth: int = 1  # steps that may be in flight
    clock: TurnClock = field(default_factory=lambda: TurnClock())
    #: The part of the same model whose requests this part's results become: an encoder's decoder.
    feeds: ModelSlot | None = None
    #: It goes before the part that it feeds while that has fewer requests.
    feed_requests: int = FEED_REQUESTS
    in_flight: deque[InFlight] = field(default_factory=deque)
    #: Seconds of a step: a moving average in which each new step has a weight of a tenth.
    usual_step: float = 0.0
    #: The slots of adapters that requests may use, with the `content` that their requests have.
    adapters: dict[int, bytes] = field(default_factory=dict)
    #: The name of the device that it computes on, and whether `submit` returns only when the step has run there.
    device: str = "cpu"
    computes_in_submit: bool = True
    #: The error of ours that an error of the device's library means.
    translate: Callable[[Exception], Exception] = lambda error: error
    #: What it computes: the role of the model's part.
    role: str = "decoder"

    @property
    def turn_order(self) -> int:
        """The order of a model's parts: an encoder goes first while its decoder's batch is not full."""
        if self.feeds is None:
            return 1
        return 0 if len(self.feeds.scheduler.requests()) < self.feed_requests else 2
