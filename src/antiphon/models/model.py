"""What every model offers the rooms above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import torch
from torch import Tensor

from antiphon.layers.module import Module
from antiphon.ops import Batch, CacheGroup, KVCache
from antiphon.weights.checkpoint import Checkpoint


class Task(StrEnum):
    GENERATE = "generate"  # token by token
    EMBED = "embed"  # one vector per text
    TRANSCRIBE = "transcribe"  # sound to tokens
    SYNTHESIZE = "synthesize"  # phonemes to sound
    PHONEMIZE = "phonemize"  # letters to phonemes
    VOICE_ACTIVITY = "voice-activity"  # sound to probabilities of speech


@dataclass(frozen=True)
class StateSpec:
    """A fixed-size record of per-request state that is not keys and values."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype


class Model(Module, ABC):
    """A module tree built from a checkpoint. It keeps nothing of any request."""

    task: ClassVar[Task]
    #: Patterns of tensors that checkpoints of this architecture may carry and the model does not need.
    ignores: ClassVar[tuple[str, ...]] = ("*rotary_emb.inv_freq",)
    vocab_size: int
    max_positions: int

    @classmethod
    @abstractmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Model:
        """Translate the checkpoint's config and take its tensors; `CheckpointError` names what is missing."""

    def cache_groups(self) -> list[CacheGroup]:
        """The layers whose keys and values are cached, by how they live and die. Empty for encoders."""
        return []

    def key_balance(self, group: str, layer: int) -> Tensor | None:
        """Powers of two [kv_heads, head_dim] near the size of each channel of a layer's keys, or None if not known.

        They are the same for both channels of a rotary pair. int8 pages of keys divided by them lose less.
        """
        return None

    def state_spec(self) -> list[StateSpec]:
        """Per-request records beside keys and values."""
        return []


class CausalLM(Model):
    """A model that predicts the next token."""

    task = Task.GENERATE

    @abstractmethod
    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        """Logits [L, vocab] of batch.logit_rows; stores the keys and values of every token of the batch."""
