"""`EncoderDecoder`: a token decoder whose cross-attention reads the states of an encoder."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from antiphon.models.base.model import CausalLM
from antiphon.models.base.parts import CrossStates, Encoder, Part, Recordable, SoundFeatures
from antiphon.ops import Batch, KVCache


class EncoderDecoder(CausalLM):
    """The decoder is a `CausalLM` with a `cross` cache group. The encoder runs in stages, for many inputs at once."""

    #: Encoder states of one input, which is also how many tokens its cross group holds.
    cross_tokens: int

    def parts(self) -> tuple[Part, ...]:
        encoder = Encoder(
            owner=type(self).__name__,
            num_stages=self.num_encoder_stages,
            num_states=self.cross_tokens,
            run_stage=self.encode_stage,
            encode=self.whole_encoder(),
            features=self.sound_features(),
        )
        return encoder, self.decoder()

    @abstractmethod
    def cross_states(self) -> CrossStates: ...

    def whole_encoder(self) -> Recordable | None:
        """All stages of the encoder as one function that can be recorded, where there is one."""
        return None

    def sound_features(self) -> SoundFeatures | None:
        """How the encoder's inputs are made of samples on the model's device, where its inputs are sound."""
        return None

    @property
    @abstractmethod
    def num_encoder_stages(self) -> int: ...

    @abstractmethod
    def encode_stage(self, stage: int, x: Tensor, seq_start: Tensor) -> Tensor:
        """The next stage of encoding. Stage 0 takes inputs stacked [B, ...], every other one the states before it.

        States are [B * cross_tokens, hidden], and `seq_start` [B + 1] counts them.
        """

    @abstractmethod
    def store_encoded(self, encoded: Tensor, batch: Batch, cache: KVCache) -> None:
        """Write every decoder layer's cross keys and values of encoder states to the batch's cross slots."""

    @abstractmethod
    def forward_aligned(self, batch: Batch, cache: KVCache) -> tuple[Tensor, list[Tensor]]:
        """The logits of `forward`, and for each layer the cross-attention probabilities [heads, T, cross_tokens] of
        the heads that follow the input from left to right."""
