"""`DeviceLane`: what the loop keeps for each device, and the thread of one that computes when a step is submitted."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from antiphon.engine.plan import Executor, StepHandle, StepPlan, StepResult

#: A model that has had less than its share may run this long in a row before one with shorter steps gets a step.
TURN_SECONDS = 0.06


@runtime_checkable
class LateHandle(Protocol):
    """What a handle needs so that the loop can wait for several devices at once."""

    def notify(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` when the step is done, from any thread; at once if it is. It may be called more than once."""


@dataclass(slots=True, eq=False)
class TurnClock:
    """The time that a model has used, divided by its share. Parts of one model have one clock."""

    time: float = 0.0


@dataclass(slots=True, eq=False)
class ModelTurn:
    """The clock of the model that ran the last step, and the time of its steps in a row."""

    clock: TurnClock | None = None
    seconds: float = 0.0

    def add(self, clock: TurnClock, seconds: float) -> None:
        self.seconds = seconds + (self.seconds if clock is self.clock else 0.0)
        self.clock = clock

    def is_over(self, clock: TurnClock, seconds: float) -> bool:
        """Whether one more step of so many seconds would make a model's turn too long."""
        return clock is self.clock and self.seconds + seconds > TURN_SECONDS


class ThreadHandle:
    """A step that runs in a device's thread."""

    def __init__(self, thread: ThreadPoolExecutor, executor: Executor, plan: StepPlan) -> None:
        self._thread = thread
        self._submitted: Future[StepHandle] = thread.submit(executor.submit, plan)
        self._last: Future[StepHandle] = self._submitted
        self._on_done: Callable[[], None] | None = None

    def choose(self) -> None:
        """Draw the tokens, in the thread, after what was submitted before."""
        self._last = self._thread.submit(self._choose)
        if self._on_done is not None:
            self.notify(self._on_done)

    def _choose(self) -> StepHandle:
        handle = self._submitted.result()
        getattr(handle, "choose", lambda: None)()
        return handle

    def notify(self, on_done: Callable[[], None]) -> None:
        self._on_done = on_done
        self._last.add_done_callback(lambda _: on_done())

    def done(self) -> bool:
        return self._last.done()

    def result(self) -> StepResult:
        return self._last.result().result()


@dataclass(eq=False)
class DeviceLane:
    """The turns of the models on one device. Devices neither wait for each other nor share their time."""

    name: str
    turn: ModelTurn = field(default_factory=ModelTurn)
    last_commit: float = 0.0
    #: Since when a step has been in flight beside those of other devices, in seconds of `time.monotonic`.
    busy_since: float | None = None
    _thread: ThreadPoolExecutor | None = None

    def submit(self, executor: Executor, plan: StepPlan) -> ThreadHandle:
        """Have the device's own thread submit a step, which computes it."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"antiphon-{self.name}")
        return ThreadHandle(self._thread, executor, plan)

    def mark(self, is_in_flight: bool) -> None:
        """A step was launched or committed."""
        self.busy_since = time.monotonic() if is_in_flight else None

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
