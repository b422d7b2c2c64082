"""Fake device for tests of the engine loop: its steps run when the test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.engine.plan import StepHandle, StepPlan, StepResult
from antiphon.engine.policies.registry import make_policy
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams


class FakeHandle:
    """Handle of a step that is done once the test calls `finish`, with a result or an error."""

    def __init__(self, plan: StepPlan) -> None:
        self.plan = plan
        self.error: Exception | None = None
        self._is_done = threading.Event()
        self._on_done: list[Callable[[], None]] = []

    def choose(self) -> None: ...

    def notify(self, on_done: Callable[[], None]) -> None:
        self._on_done.append(on_done)
        if self.done():
            on_done()

    def finish(self, error: Exception | None = None) -> None:
        self.error = error
        self._is_done.set()
        for on_done in self._on_done:
            on_done()

    def done(self) -> bool:
        return self._is_done.is_set()

    def result(self) -> StepResult:
        assert self._is_done.wait(120)
        if self.error is not None:
            raise self.error
        return StepResult([], outputs=[f"{request.id} done" for request in self.plan.requests])


class FakeExecutor:
    """Executor that records the handles of its steps.

    With `computes_in_submit`, `submit` blocks until the test finishes the step; with `is_instant`, steps are done at
    once.
    """

    def __init__(self, computes_in_submit: bool = False, is_instant: bool = False) -> None:
        self.handles: list[FakeHandle] = []
        self.threads: set[str] = set()
        self.submitted = threading.Semaphore(0)
        self._computes_in_submit = computes_in_submit
        self._is_instant = is_instant

    def submit(self, plan: StepPlan) -> StepHandle:
        handle = FakeHandle(plan)
        self.handles.append(handle)
        self.threads.add(threading.current_thread().name)
        if self._is_instant:
            handle.finish()
        self.submitted.release()
        if self._computes_in_submit:
            handle.result()
        return handle

    def close(self) -> None: ...


def fake_slot(name: str, device: str, executor: FakeExecutor, computes_in_submit: bool = False) -> ModelSlot:
    """Build the slot of a model whose requests take a step each."""
    scheduler = OneShotScheduler(name, make_policy("fcfs"), max_model_tokens=8, max_step_tokens=1)
    return ModelSlot(name, scheduler, executor, device=device, computes_in_submit=computes_in_submit)


def fake_request(name: str, model: str, on_end: Callable[[Request], None] | None = None) -> Request:
    return Request(name, model, [1], SamplingParams(), task="synthesize", on_end=on_end)
