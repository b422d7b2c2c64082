"""The slot of an encoder: one-shot requests of one window each, which become requests of the decoder that it feeds."""

from __future__ import annotations

from typing import Any

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.device.encoder import DeviceEncoderExecutor, num_steps
from antiphon.executor.encoder import EncoderExecutor
from antiphon.models.base.parts import Encoder
from antiphon.runtime.slots.context import DEVICE_DEPTH, SlotContext

#: Decoder requests on a GPU up to which the encoder runs first: a decoder step takes about as long for many as for one.
DEVICE_FEED_REQUESTS = 64


def encoder_slot(part: Encoder, context: SlotContext) -> ModelSlot:
    """Create a slot that shares the clock of the decoder it feeds, so that both count as one model.

    On the CPU every stage is a step of its own, so that other models' steps come between the layers of a window; on a
    GPU, a step takes many stages.
    """
    config, decoder, device = context.config, context.made[part.feeds], context.loaded.device
    scheduler = OneShotScheduler(
        context.name,
        config.make_policy(),
        max_model_tokens=part.num_states,
        num_stages=part.num_stages if device.is_cpu else num_steps(part),
        max_step_tokens=max(context.sizes.max_step_tokens, part.num_states),
        step_seconds=config.step_seconds,
    )
    shared: dict[str, Any] = dict(clock=decoder.clock, feeds=decoder)
    if device.is_cpu:
        return ModelSlot(context.name, scheduler, EncoderExecutor(part), **shared)
    executor = DeviceEncoderExecutor(part, device, config.record)
    return ModelSlot(
        context.name, scheduler, executor, depth=DEVICE_DEPTH, feed_requests=DEVICE_FEED_REQUESTS, **shared
    )
