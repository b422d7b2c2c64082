"""Handles of steps that run when they are submitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from antiphon.engine.plan import StepResult


@dataclass(frozen=True)
class DoneHandle:
    """Step that has already run."""

    value: StepResult

    def choose(self) -> None:
        """Do nothing: the tokens have already been sampled."""

    def done(self) -> bool:
        return True

    def result(self) -> StepResult:
        return self.value


@dataclass
class ForwardHandle:
    """Step whose forward pass has run; `draw` samples its tokens from the logits."""

    draw: Callable[[], StepResult]
    _value: StepResult | None = field(default=None, init=False)

    def choose(self) -> None:
        self._value = self.draw()

    def done(self) -> bool:
        return self._value is not None

    def result(self) -> StepResult:
        assert self._value is not None, "the result of a step whose tokens were not drawn"
        return self._value
