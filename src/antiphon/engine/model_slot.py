"""`ModelSlot`: a resident model in the engine loop, with its steps in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.engine.device_lane import TurnClock
from antiphon.engine.plan import Executor, StepHandle, StepPlan, StepResult
from antiphon.engine.request import FinishReason, Priority, Request

#: Requests above which a decoder's step on a CPU gains nothing from a larger batch.
FEED_REQUESTS = 16


class ModelScheduler(Protocol):
    """Scheduler of a model as the loop uses it: `Scheduler`, or `OneShotScheduler` for one-shot requests."""

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
        """Halve the steps after one ran out of memory, and requeue its requests; return False if that is impossible."""

    def preempt_last(self, plan: StepPlan) -> bool: ...

    def figures(self) -> tuple[int, int, int, int, int]:
        """Return the numbers of running and waiting requests, and of free, cached and owned blocks."""

    def requests(self) -> list[Request]:
        """Return all requests that have not ended, and ended requests with a step in flight."""

    def check_integrity(self) -> None: ...

    def close(self, now: float) -> None: ...


@dataclass(slots=True, eq=False)
class InFlight:
    """Submitted step that is not committed yet."""

    plan: StepPlan
    handle: StepHandle
    started: float
    plan_seconds: float
    is_chosen: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether no other step can be planned before this step is committed or sampled."""
        return self.plan.is_awaited or not self.is_chosen


@dataclass(slots=True, eq=False)
class ModelSlot:
    """Resident model: its scheduler, its executor and the time it has used."""

    name: str
    scheduler: ModelScheduler
    executor: Executor
    depth: int = 1  # maximum steps in flight
    clock: TurnClock = field(default_factory=lambda: TurnClock())
    #: Part of the same model that receives this part's results, such as an encoder's decoder.
    feeds: ModelSlot | None = None
    #: Number of requests in the fed part below which this part goes first.
    feed_requests: int = FEED_REQUESTS
    in_flight: deque[InFlight] = field(default_factory=deque)
    #: Seconds per step: a moving average in which each new step has a weight of a tenth.
    usual_step: float = 0.0
    #: Slots of usable adapters, with the `content` of the requests that use them.
    adapters: dict[int, bytes] = field(default_factory=dict)
    #: Device that the model computes on, and whether `submit` returns only when the step has run there.
    device: str = "cpu"
    computes_in_submit: bool = True
    #: Translation of a device library's error into an AntiphonError.
    translate: Callable[[Exception], Exception] = lambda error: error
    #: Role of this part of the model.
    role: str = "decoder"

    @property
    def turn_order(self) -> int:
        """Rank among the model's parts: an encoder goes first while its decoder's batch is not full."""
        if self.feeds is None:
            return 1
        return 0 if len(self.feeds.scheduler.requests()) < self.feed_requests else 2
