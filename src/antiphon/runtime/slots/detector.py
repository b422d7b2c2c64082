"""The slot of a detector: one-shot requests of one small input each."""

from __future__ import annotations

import sys

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.detector import DetectorExecutor
from antiphon.models.base.parts import Detector
from antiphon.runtime.slots.context import SlotContext


def detector_slot(part: Detector, context: SlotContext) -> ModelSlot:
    """Create a slot that runs by priority even under an arrival policy: live sessions go before recordings."""
    scheduler = OneShotScheduler(
        context.name, context.priority_policy(), max_model_tokens=sys.maxsize, max_step_tokens=part.step_size
    )
    return ModelSlot(context.name, scheduler, DetectorExecutor(part))
