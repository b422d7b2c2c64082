"""The interface of all models to the packages above them."""

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
    """A module tree built from a checkpoint, without any state of requests.

    `parts` and `weight_rules` declare what the engine runs and which form the weights take.
    """

    #: Architecture names in files: GGUF's `general.architecture` and Hugging Face's `model_type`.
    architectures: ClassVar[tuple[str, ...]] = ()
    task: ClassVar[Task]
    vocabulary: ClassVar[VocabularyKind] = VocabularyKind.TEXT
    #: Patterns of tensor names that checkpoints of this architecture may contain and the model does not need.
    ignores: ClassVar[tuple[str, ...]] = ("*rotary_emb.inv_freq",)
    #: Catalog references of the detectors that calls to this model may use.
    companions: ClassVar[tuple[str, ...]] = ()
    #: Whether activations may have the device's compute type; otherwise they have 32 bits.
    takes_compute_type: ClassVar[bool] = True
    #: Default compute type on a GPU; None: the device's own.
    preferred_type: ClassVar[torch.dtype | None] = None
    vocab_size: int
    max_positions: int

    @classmethod
    @abstractmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Model:
        """Build the model from its config and tensors; raise `CheckpointError` if any of them is missing."""

    def parts(self) -> tuple[Part, ...]:
        """Return the parts of this model that the engine runs."""
        return ()

    def gguf_name(self, name: str) -> str:
        """Return the name in GGUF files of one of the model's own tensor names."""
        return name

    def gguf_row_order(self, name: str) -> Tensor | None:
        """Return the order in which to read the rows of a GGUF file's tensor, or None for the file's order."""
        return None

    def part(self, kind: type[P]) -> P | None:
        """Return the part of that kind, or None."""
        return next((part for part in self.parts() if isinstance(part, kind)), None)

    def weight_rules(self) -> WeightRules:
        """Return the rules for the form of each weight at load."""
        return WeightRules.of(self)

    def weight_bytes(self) -> int:
        return sum(weight.resident_bytes for weight in self.weights())


class CausalLM(Model):
    """A model that predicts the next token."""

    task = Task.GENERATE

    def cache_groups(self) -> list[CacheGroup]:
        """Return the groups of layers whose keys and values are cached, by how long their tokens are kept."""
        return []

    def key_balance(self, group: str, layer: int) -> Tensor | None:
        """Return powers of two [kv_heads, head_dim] near the size of each channel of a layer's keys, or None.

        Both channels of a rotary pair have the same value. int8 pages lose less precision if keys are divided by them.
        """
        return None

    def cross_states(self) -> CrossStates | None:
        """Return what cross-attention needs, or None for a model without an encoder."""
        return None

    def decoder(self) -> TokenDecoder:
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
        """Store the keys and values of all tokens of the batch and return the logits [L, vocab] of batch.logit_rows."""
