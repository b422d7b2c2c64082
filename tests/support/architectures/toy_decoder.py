"""A toy architecture, as complete as a real one has to be: one attention layer between an embedding and a head."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from antiphon import ops
from antiphon.layers.attention import SelfAttention
from antiphon.layers.linear import Embedding, Head
from antiphon.layers.norm import RMSNorm
from antiphon.models.base.metadata import require
from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source

GROUP = "self"
NORM_EPS = 1e-5


class ToyDecoder(CausalLM):
    """head(x + attention(norm(x))), where x are the embeddings."""

    def __init__(self, source: Source, vocab_size: int, hidden: int, num_heads: int, max_positions: int) -> None:
        self.vocab_size = vocab_size
        self.max_positions = max_positions
        self.num_heads, self.head_dim = num_heads, hidden // num_heads
        self.embedding = Embedding(source, "embedding", vocab_size, hidden)
        self.norm = RMSNorm(source, "norm", hidden, NORM_EPS)
        self.attention = SelfAttention(source, hidden, num_heads, num_heads, self.head_dim)
        self.head = Head(source, "head", self.embedding)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        names = ("vocab_size", "hidden_size", "num_attention_heads", "max_position_embeddings")
        return cls(Source(checkpoint), *(require(checkpoint.metadata, name) for name in names))

    def cache_groups(self) -> list[CacheGroup]:
        return [CacheGroup(GROUP, CacheKind.FULL, 1, self.num_heads, self.head_dim)]

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        x = self.embedding.inputs(batch)  # [T, hidden]
        x = self.attention(self.norm(x), batch, cache.layer(GROUP, 0), None, residual=x)
        return self.head(ops.gather_rows(x, batch.logit_rows))  # [L, vocab]
