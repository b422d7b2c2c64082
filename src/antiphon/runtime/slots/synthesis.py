"""The slot of a speech model: one-shot requests of one utterance each."""

from __future__ import annotations

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.device.synthesis import DeviceSynthesisExecutor
from antiphon.executor.synthesis import SynthesisExecutor
from antiphon.models.base.parts import SynthesisStages
from antiphon.ops.threads import machine_threads
from antiphon.runtime.slots.context import SlotContext

#: Phonemes per step on the CPU, or per step and core where utterances are computed side by side. The convolutions gain
#: nothing from more, and a longer step delays all other requests.
STEP_TOKENS = 96


#: Phonemes per step on a GPU, some two minutes of speech: fewer leave it idle, more take many gigabytes.
DEVICE_STEP_TOKENS = 2048


def synthesis_slot(part: SynthesisStages, context: SlotContext) -> ModelSlot:
    """Create a slot in which every stage is a step of its own.

    Requests run by priority even under an arrival policy: a listener whose audio runs out goes first.
    """
    config, device = context.config, context.loaded.device
    side_by_side = machine_threads() if device.is_cpu and part.lone_stages == len(part.stages) else 1
    scheduler = OneShotScheduler(
        context.name,
        context.priority_policy(),
        max_model_tokens=part.max_positions,
        num_stages=len(part.stages),
        side_by_side=side_by_side,
        max_step_tokens=STEP_TOKENS * side_by_side if device.is_cpu else DEVICE_STEP_TOKENS,
        step_seconds=config.step_seconds,
        is_padded=not device.is_cpu,
    )
    if device.is_cpu:
        return ModelSlot(context.name, scheduler, SynthesisExecutor(part))
    return ModelSlot(context.name, scheduler, DeviceSynthesisExecutor(part, device))
