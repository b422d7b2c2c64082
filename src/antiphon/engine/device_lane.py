"""`DeviceLane`: the loop's state for one device, with a thread for a device that computes inside `submit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from antiphon.engine.plan import Executor, StepHandle, StepPlan, StepResult

#: Maximum seconds of a model's consecutive steps while a model of at least its share has shorter steps to run.
TURN_SECONDS = 0.06


@runtime_checkable
class LateHandle(Protocol):
    """Step handle that reports completion, which lets the loop wait for several devices at once."""

    def notify(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` from any thread when the step is done, or at once if it is done already.

        `on_done` may be called more than once.
        """


@dataclass(slots=True, eq=False)
class TurnClock:
    """Seconds that a model has used, divided by its share. The parts of one model share a clock."""

    time: float = 0.0


@dataclass(slots=True, eq=False)
class ModelTurn:
    """Clock of the model that ran last, and the seconds of its consecutive steps."""

    clock: TurnClock | None = None
    seconds: float = 0.0

    def add(self, clock: TurnClock, seconds: float) -> None:
        self.seconds = seconds + (self.seconds if clock is self.clock else 0.0)
        self.clock = clock

    def is_over(self, clock: TurnClock, seconds: float) -> bool:
        """Return whether the model would exceed its turn with one more step of this length."""
        return clock is self.clock and self.seconds + seconds > TURN_SECONDS


class ThreadHandle:
    """Handle of a step that runs in a device's thread."""

    def __init__(self, thread: ThreadPoolExecutor, executor: Executor, plan: StepPlan) -> None:
        self._thread = thread
        self._submitted: Future[StepHandle] = thread.submit(executor.submit, plan)
        self._last: Future[StepHandle] = self._submitted
        self._on_done: Callable[[], None] | None = None

    def choose(self) -> None:
        """Sample the tokens in the thread, after everything submitted before."""
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
    """Turns of the models on one device. Devices neither wait for each other nor share their time."""

    name: str
    turn: ModelTurn = field(default_factory=ModelTurn)
    last_commit: float = 0.0
    #: `time.monotonic` since which a step has been in flight, with several devices; None if no step is.
    busy_since: float | None = None
    _thread: ThreadPoolExecutor | None = None

    def submit(self, executor: Executor, plan: StepPlan) -> ThreadHandle:
        """Submit a step from the device's own thread, which computes it."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, f"antiphon-{self.name}")
        return ThreadHandle(self._thread, executor, plan)

    def mark(self, is_in_flight: bool) -> None:
        """Record that a step is in flight since now, or that none is."""
        self.busy_since = time.monotonic() if is_in_flight else None

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
