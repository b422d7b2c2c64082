"""Slot makers by kind of part. A new kind is one file in this folder and one line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.engine.model_slot import ModelSlot
from antiphon.models.base.parts import Detector, Encoder, Part, SynthesisStages, TextEmbedding, TokenDecoder
from antiphon.runtime.slots.context import SlotContext
from antiphon.runtime.slots.decoder import decoder_slot
from antiphon.runtime.slots.detector import detector_slot
from antiphon.runtime.slots.embedding import embedding_slot
from antiphon.runtime.slots.encoder import encoder_slot
from antiphon.runtime.slots.synthesis import synthesis_slot

SLOT_MAKERS: dict[type[Part], Callable[[Any, SlotContext], ModelSlot]] = {
    Detector: detector_slot,
    Encoder: encoder_slot,
    SynthesisStages: synthesis_slot,
    TextEmbedding: embedding_slot,
    TokenDecoder: decoder_slot,
}
