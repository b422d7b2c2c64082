"""Adaptive policy: prefill as fast as the running requests' pace allows, by the fitted cost of a step."""

from __future__ import annotations

from antiphon.engine.policies.policy import StepView
from antiphon.engine.policies.priority import PriorityPolicy

#: Minimum prefill tokens per step; without it a heavy decode load would starve prefill.
MIN_PREFILL_TOKENS = 2
#: Maximum prefill tokens per step beside running requests, before the cost model is fitted.
UNFITTED_PREFILL_TOKENS = 64
#: Fraction of the target to aim for, since predictions err on both sides.
MARGIN = 0.85


class AdaptivePolicy(PriorityPolicy):
    """Policy that limits each step's prefill so that the step takes at most `tpot_target` seconds.

    If no request decodes, the whole step goes to prefill, for the earliest first token. With a `ttft_target`, steps may
    take twice as long once a request has waited half of it for its first token.
    """

    def __init__(
        self, tpot_target: float, ttft_target: float | None = None, ageing_seconds: float | None = 10.0
    ) -> None:
        super().__init__(ageing_seconds)
        self.tpot_target = tpot_target
        self.ttft_target = ttft_target

    def prefill_tokens(self, view: StepView) -> int:
        if view.decodes == 0:
            return view.cap
        if not view.cost.is_fitted:
            return min(view.cap, UNFITTED_PREFILL_TOKENS)
        target = self.tpot_target * MARGIN
        if self.ttft_target is not None and view.oldest_wait > self.ttft_target / 2:
            target *= 2
        tokens = view.cost.prefill_tokens_within(
            target, view.decodes, view.attended_tokens, view.cap, view.prefill_start
        )
        return max(tokens, min(MIN_PREFILL_TOKENS, view.cap))
