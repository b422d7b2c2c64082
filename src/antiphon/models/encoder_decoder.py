"""`EncoderDecoder`: a token decoder whose cross-attention reads what an encoder made of something else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from torch import Tensor

from antiphon.models.model import CausalLM
from antiphon.ops import Batch, KVCache
from antiphon.weights.weight import Weight


class EncoderDecoder(CausalLM):
    """The decoder is a `CausalLM` with a `cross` cache group. The encoder runs in stages, for many inputs at once."""

    #: Encoder states of one input, which is also how many tokens its cross group holds.
    cross_tokens: int

    @abstractmethod
    def encoder_weights(self) -> Iterator[Weight]:
        """The matrices that only ever meet the states of whole inputs, never single tokens."""

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
        """What `forward` gives, and the probabilities [heads of a layer, T, cross_tokens] by which the heads that
        follow the input from left to right attend to it."""
