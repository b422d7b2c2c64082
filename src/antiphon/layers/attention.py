"""Self-attention and cross-attention over the paged cache, and the bidirectional attention of encoders."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.linear import Linear
from antiphon.layers.module import Module
from antiphon.layers.norm import RMSNorm
from antiphon.ops import Batch, LayerCache, RotaryTable
from antiphon.weights.source import Source


def split_heads(x: Tensor, counts: Sequence[int], head_dim: int) -> list[Tensor]:
    """Split [T, sum(counts) * head_dim] into a view [T, count, head_dim] per count."""
    heads = x.unflatten(-1, (-1, head_dim))
    return list(heads.split(list(counts), dim=1))


class SelfAttention(Module):
    """Causal attention of a decoder: fused QKV, optional query/key norm, rotary, pages, output with residual."""

    def __init__(
        self,
        source: Source,
        hidden: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        scale: float | None = None,
        qkv_bias: bool = False,
        out_bias: bool = False,
        qk_norm_eps: float | None = None,
        norm_offset: float = 0.0,
        names: Sequence[str] = ("q_proj", "k_proj", "v_proj", "o_proj"),
    ) -> None:
        *projections, out = names
        sizes = [num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * head_dim]
        if len(projections) == 1:  # the checkpoint stores them fused
            sizes = [sum(sizes)]
        self.qkv = Linear(source, projections, hidden, sizes, bias=qkv_bias)
        self.out = Linear(source, out, num_heads * head_dim, hidden, bias=out_bias)
        self.norms: tuple[RMSNorm, RMSNorm] | None = None
        if qk_norm_eps is not None:
            self.norms = (
                RMSNorm(source, "q_norm", head_dim, qk_norm_eps, norm_offset),
                RMSNorm(source, "k_norm", head_dim, qk_norm_eps, norm_offset),
            )
        self.counts = (num_heads, num_kv_heads, num_kv_heads)
        self.head_dim = head_dim
        self.scale = head_dim**-0.5 if scale is None else scale

    def key_balance(self, input_scale: Tensor) -> Tensor:
        """Return powers of two [kv_heads, head_dim] near the keys' usual size, equal for both channels of a pair.

        A pair are the two channels that rotary positions rotate together. `input_scale` [hidden] is the weight of the
        preceding norm. A channel's size is estimated from its bias and its row of the weight, or from the key norm's
        weight if there is one.
        """
        heads, kv_heads, _ = self.counts
        if self.norms is not None:
            size = self.norms[1].weight.abs().expand(kv_heads, -1)
        else:
            rows = torch.arange(heads * self.head_dim, (heads + kv_heads) * self.head_dim, device=input_scale.device)
            spread = (ops.embed(rows, self.qkv.weight) * input_scale).norm(dim=1)
            mean = 0.0 if self.qkv.bias is None else self.qkv.bias[rows].abs()
            size = (spread + mean).unflatten(0, (kv_heads, -1))
        first, second = size.chunk(2, dim=1)
        pair = torch.maximum(first, second).clamp(min=2.0**-20)
        return torch.exp2(torch.log2(pair).round()).repeat(1, 2).contiguous()

    def __call__(
        self,
        x: Tensor,
        batch: Batch,
        cache: LayerCache,
        rotary: RotaryTable | None,
        residual: Tensor | None = None,
    ) -> Tensor:
        q, k, v = split_heads(self.qkv(x, adapters=batch.adapters), self.counts, self.head_dim)
        if self.norms is not None:
            q, k = self.norms[0](q), self.norms[1](k)
        if rotary is not None:
            q, k = ops.rotary(q, k, batch.positions, rotary)
        group = batch.groups[cache.group]
        ops.store_kv(k, v, cache, group)
        y = ops.paged_attention(q, cache, group, self.scale, window=cache.window, sink_tokens=cache.sink_tokens)
        return self.out(y.flatten(1), residual, batch.adapters)


class CrossAttention(Module):
    """A decoder's attention to the keys and values of encoder states, which are computed once."""

    def __init__(
        self,
        source: Source,
        hidden: int,
        num_heads: int,
        names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "out_proj"),
    ) -> None:
        query, key, value, out = names
        self.query = Linear(source, query, hidden, hidden, bias=True)
        self.key_value = Linear(source, (key, value), hidden, (hidden, hidden), bias=True)
        self.out = Linear(source, out, hidden, hidden, bias=True)
        self.num_heads = num_heads
        self.head_dim = hidden // num_heads
        self.scale = self.head_dim**-0.5

    def store(self, encoded: Tensor, cache: LayerCache, batch: Batch) -> None:
        """Write the keys and values of encoder states [T, hidden] to the slots of the batch's cross group."""
        k, v = split_heads(self.key_value(encoded), (self.num_heads, self.num_heads), self.head_dim)
        ops.store_kv(k, v, cache, batch.groups[cache.group])

    def probabilities(self, x: Tensor, batch: Batch, cache: LayerCache, heads: Sequence[int]) -> Tensor:
        """Return the attention probabilities of the given heads over the states: [len(heads), T, longest]."""
        q = self.query(x).unflatten(-1, (self.num_heads, self.head_dim))
        return ops.paged_attention_weights(q, cache, batch.groups[cache.group], self.scale, heads)

    def __call__(self, x: Tensor, batch: Batch, cache: LayerCache, residual: Tensor | None = None) -> Tensor:
        q = self.query(x).unflatten(-1, (self.num_heads, self.head_dim))
        y = ops.paged_attention(q, cache, batch.groups[cache.group], self.scale, causal=False)
        return self.out(y.flatten(1), residual)


class EncoderAttention(Module):
    """Attention of every token to its whole sequence, without a cache.

    With `rounds`, attention is rounded to int8 if the adjacent products are.
    """

    def __init__(
        self,
        source: Source,
        hidden: int,
        num_heads: int,
        names: tuple[str, str, str, str] = ("q_proj", "k_proj", "v_proj", "out_proj"),
        rounds: bool = False,
    ) -> None:
        query, key, value, out = names
        self.qkv = Linear(source, (query, key, value), hidden, (hidden, hidden, hidden), bias=True)
        self.out = Linear(source, out, hidden, hidden, bias=True)
        self.num_heads = num_heads
        self.head_dim = hidden // num_heads
        self.rounds = rounds

    def __call__(self, x: Tensor, seq_start: Tensor, residual: Tensor | None = None) -> Tensor:
        counts = (self.num_heads,) * 3
        q, k, v = split_heads(self.qkv(x), counts, self.head_dim)
        rounded = self.rounds and ops.rounds_inputs(self.qkv.weight)
        y = ops.attention(q, k, v, seq_start, self.head_dim**-0.5, rounded=rounded)
        return self.out(y.flatten(1), residual)
