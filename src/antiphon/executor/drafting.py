"""`DraftingExecutor`: the executor of a model whose tokens a smaller model drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from antiphon.engine.device_lane import LateHandle
from antiphon.engine.plan import DRAFTING, Executor, StepHandle, StepPlan, StepResult


@dataclass(frozen=True)
class PassHandles:
    """Passes of a drafting step. All but the last have sampled their tokens, or are about to."""

    passes: list[StepHandle]

    def choose(self) -> None:
        self.passes[-1].choose()

    def notify(self, on_done: Callable[[], None]) -> None:
        last = self.passes[-1]
        if isinstance(last, LateHandle):
            last.notify(on_done)
        else:
            on_done()

    def done(self) -> bool:
        return self.passes[-1].done()

    def result(self) -> StepResult:
        """Wait for all passes. Return their tokens, pass by pass, and the sums of their times."""
        results = [handle.result() for handle in self.passes]
        timings: dict[str, float] = {}
        for result in results:
            for name, seconds in result.timings.items():
                timings[name] = timings.get(name, 0.0) + seconds
        tokens = [token for result in results for token in result.tokens]
        return StepResult(tokens, timings=timings, native_seconds=sum(result.native_seconds for result in results))


class DraftingExecutor:
    """Submits drafting steps to the draft model's executor, pass by pass, and all other steps to the model's own."""

    def __init__(self, own: Executor, draft: Executor) -> None:
        self.own, self._draft = own, draft

    def submit(self, plan: StepPlan) -> StepHandle:
        if plan.stage != DRAFTING:
            return self.own.submit(plan)
        handles = [self._draft.submit(plan)]
        last = plan
        for _ in range(plan.passes - 1):
            handles[-1].choose()
            last = _next_pass(last)
            handles.append(self._draft.submit(last))
        return PassHandles(handles)

    def close(self) -> None:
        self._draft.close()
        self.own.close()


def _next_pass(plan: StepPlan) -> StepPlan:
    """Plan a pass in which every request computes the token that it has just sampled, and samples another."""
    count = len(plan.requests)
    starts = [start + done for start, done in zip(plan.starts, plan.counts, strict=True)]
    return StepPlan(
        plan.model,
        requests=plan.requests,
        starts=starts,
        counts=[1] * count,
        samples=[True] * count,
        num_decodes=count,
        num_tokens=count,
        stage=DRAFTING,
    )
