"""`DoneHandle`: the handle of a step that ran when it was submitted."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.engine.plan import StepResult


@dataclass(frozen=True)
class DoneHandle:
    """A step that has already run."""

    value: StepResult

    def done(self) -> bool:
        return True

    def result(self) -> StepResult:
        return self.value
