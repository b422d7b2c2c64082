"""The slot of an encoder: one-shot requests, a window each, which become requests of the decoder that it feeds."""

from __future__ import annotations

from typing import Any

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.device.encoder import DeviceEncoderExecutor, num_steps
from antiphon.executor.encoder import EncoderExecutor
from antiphon.models.base.parts import Encoder
from antiphon.runtime.slots.context import DEVICE_DEPTH, SlotContext

#: Requests up to which a decoder on a GPU is fed first: its steps take about as long for many as for one.
DEVICE_FEED_REQUESTS = 64


def encoder_slot(part: Encoder, context: SlotContext) -> ModelSlot:
    """Every stage is a step of its own, so that other models' steps come between the layers of a window; on a GPU, many
    stages together are.

    Encoder and decoder share the model's time.
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
