"""The slot of a text embedding: one-shot requests of one whole text each."""

from __future__ import annotations

from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.one_shot import OneShotScheduler
from antiphon.executor.device.embedding import DeviceEmbeddingExecutor
from antiphon.executor.embedding import EmbeddingExecutor
from antiphon.models.base.parts import TextEmbedding
from antiphon.runtime.slots.context import DEVICE_DEPTH, SlotContext


def embedding_slot(part: TextEmbedding, context: SlotContext) -> ModelSlot:
    config = context.config
    scheduler = OneShotScheduler(
        context.name,
        config.make_policy(),
        max_model_tokens=part.max_positions,
        max_step_tokens=max(context.sizes.max_step_tokens, part.max_positions),
        step_seconds=config.step_seconds,
    )
    device = context.loaded.device
    if device.is_cpu:
        return ModelSlot(context.name, scheduler, EmbeddingExecutor(part, record=config.record))
    return ModelSlot(context.name, scheduler, DeviceEmbeddingExecutor(part, device, config.record), depth=DEVICE_DEPTH)
