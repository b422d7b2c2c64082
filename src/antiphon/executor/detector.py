"""`DetectorExecutor`: runs a detector on the inputs of many requests at once."""

from __future__ import annotations

import time

from antiphon.engine.plan import StepPlan, StepResult
from antiphon.executor.handle import DoneHandle
from antiphon.models.base.parts import Detector


class DetectorExecutor:
    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def submit(self, plan: StepPlan) -> DoneHandle:
        begun = time.perf_counter()
        outputs = list(self._detector.run([request.inputs for request in plan.requests]))
        return DoneHandle(StepResult([], outputs=outputs, timings={"run": time.perf_counter() - begun}))

    def close(self) -> None:
        pass
