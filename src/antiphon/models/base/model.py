"""What every model offers the packages above it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar, TypeVar

import torch
from torch import Tensor

from antiphon.layers.module import Module
from antiphon.models.base.parts import CrossStates, Part, TokenDecoder, VocabularyKind, WeightRules
from antiphon.ops import Batch, CacheGroup, KVCache
from antiphon.weights.checkpoint import Checkpoint

P = TypeVar("P", bound=Part)


class Task(StrEnum):
    GENERATE = "generate"  # token by token
    EMBED = "embed"  # one vector per text
    SCORE = "score"  # one number per pair of texts
    TRANSCRIBE = "transcribe"  # sound to tokens
    SYNTHESIZE = "synthesize"  # phonemes to sound
    PHONEMIZE = "phonemize"  # letters to phonemes
    VOICE_ACTIVITY = "voice-activity"  # sound to probabilities of speech
    END_OF_TURN = "end-of-turn"  # sound to the probability that its speaker has finished


class Model(Module, ABC):
    """A module tree built from a checkpoint. It keeps nothing of any request.

    `parts` and `weight_rules` declare what the engine runs of it and which form its weights take.
    """

    #: The names that its files state: GGUF's `general.architecture` and Hugging Face's `model_type`.
    architectures: ClassVar[tuple[str, ...]] = ()
    task: ClassVar[Task]
    vocabulary: ClassVar[VocabularyKind] = VocabularyKind.TEXT
    #: Patterns of tensors that checkpoints of this architecture may carry and the model does not need.
    ignores: ClassVar[tuple[str, ...]] = ("*rotary_emb.inv_freq",)
    #: References of the detectors that calls to this model may use.
    companions: ClassVar[tuple[str, ...]] = ()
    #: Whether its activations may have a device's compute type; others compute in 32 bits.
    takes_compute_type: ClassVar[bool] = True
    #: The compute type on a GPU where none is asked for; None: the device's own.
    preferred_type: ClassVar[torch.dtype | None] = None
    vocab_size: int
    max_positions: int

    @classmethod
    @abstractmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Model:
        """Translate the checkpoint's config and take its tensors; `CheckpointError` names what is missing."""

    def parts(self) -> tuple[Part, ...]:
        """What the engine runs of this model."""
        return ()

    def gguf_name(self, name: str) -> str:
        """The name that GGUF files have for one of the model's own tensor names."""
        return name

    def gguf_row_order(self, name: str) -> Tensor | None:
        """The order in which rows of a GGUF file's tensor must be taken; None: as they are."""
        return None

    def part(self, kind: type[P]) -> P | None:
        """The part of that kind, if the model has one."""
        return next((part for part in self.parts() if isinstance(part, kind)), None)

    def weight_rules(self) -> WeightRules:
        """Which of its weights take which form when it is loaded."""
        return WeightRules.of(self)

    def weight_bytes(self) -> int:
        """Memory of the weights."""
        return sum(weight.resident_bytes for weight in self.weights())


class CausalLM(Model):
    """A model that predicts the next token."""

    task = Task.GENERATE

    def cache_groups(self) -> list[CacheGroup]:
        """The layers whose keys and values are cached, by how long these are kept."""
        return []

    def key_balance(self, group: str, layer: int) -> Tensor | None:
        """Powers of two [kv_heads, head_dim] near the size of each channel of a layer's keys, or None if not known.

        They are the same for both channels of a rotary pair. int8 pages of keys divided by them lose less.
        """
        return None

    def cross_states(self) -> CrossStates | None:
        """What cross-attention needs, for a model with an encoder."""
        return None

    def decoder(self) -> TokenDecoder:
        """This model's declaration as a token decoder."""
        return TokenDecoder(
            owner=type(self).__name__,
            vocab_size=self.vocab_size,
            max_positions=self.max_positions,
            cache_groups=tuple(self.cache_groups()),
            forward=self.forward,
            key_balance=self.key_balance,
            cross=self.cross_states(),
        )

    def parts(self) -> tuple[Part, ...]:
        return (self.decoder(),)

    @abstractmethod
    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        """Logits [L, vocab] of batch.logit_rows; stores the keys and values of every token of the batch."""
