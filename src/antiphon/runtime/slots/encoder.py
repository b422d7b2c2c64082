"""The slot of an encoder: one-shot requests, a window each, which become requests of the decoder that it feeds."""

from __future__ import annotations

from antiphon.engine.core import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.encoder import EncoderExecutor
from antiphon.models.base.parts import Encoder
from antiphon.runtime.slots.context import SlotContext


def encoder_slot(part: Encoder, context: SlotContext) -> ModelSlot:
    """Every stage is a step of its own, so that other models' steps come between the layers of a window.

    Encoder and decoder share the model's time.
    """
    config, decoder = context.config, context.made[part.feeds]
    scheduler = OneShotScheduler(
        context.name,
        config.make_policy(),
        max_model_tokens=part.num_states,
        num_stages=part.num_stages,
        max_step_tokens=max(context.sizes.max_step_tokens, part.num_states),
        step_seconds=config.step_seconds,
    )
    return ModelSlot(context.name, scheduler, EncoderExecutor(part), clock=decoder.clock, feeds=decoder)
