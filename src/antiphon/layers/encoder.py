"""The pre-norm encoder block of PyTorch's `TransformerEncoderLayer`, with PyTorch's names."""

from __future__ import annotations

from torch import Tensor

from antiphon import ops
from antiphon.layers.linear import Linear
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.weights.source import Source

NORM_EPS = 1e-5


class EncoderBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), with biases throughout."""

    def __init__(self, source: Source, size: int, inner: int, num_heads: int) -> None:
        self.norm1 = LayerNorm(source, "norm1", size, NORM_EPS)
        self.norm2 = LayerNorm(source, "norm2", size, NORM_EPS)
        attention = source.at("self_attn")
        self.qkv = attention.weight("in_proj_weight", (3 * size, size))
        self.qkv_bias = attention.tensor("in_proj_bias", (3 * size,))
        self.out = Linear(attention, "out_proj", size, size, bias=True)
        self.mlp = MLP(source, "linear1", "linear2", size, inner, "gelu")
        self.num_heads, self.head_dim = num_heads, size // num_heads

    def __call__(self, x: Tensor, seq_start: Tensor) -> Tensor:
        qkv = ops.linear(self.norm1(x), self.qkv, self.qkv_bias).unflatten(-1, (3, self.num_heads, self.head_dim))
        q, k, v = qkv.unbind(1)
        y = ops.attention(q, k, v, seq_start, self.head_dim**-0.5)
        x = self.out(y.flatten(1), residual=x)
        return self.mlp(self.norm2(x), residual=x)
