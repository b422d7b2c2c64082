"""The pre-norm decoder block of Llama, Qwen and similar models."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from antiphon.layers.attention import SelfAttention
from antiphon.layers.mlp import GatedMLP
from antiphon.layers.module import Module
from antiphon.layers.norm import RMSNorm
from antiphon.layers.rotary import RotaryConfig
from antiphon.ops import Batch, LayerCache, RotaryTable
from antiphon.weights.source import Source


@dataclass(frozen=True, kw_only=True)
class TransformerSizes:
    """Sizes common to all transformers over tokens."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    max_positions: int
    norm_eps: float


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(TransformerSizes):
    num_kv_heads: int
    head_dim: int
    rotary: RotaryConfig
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    window: int | None = None  # tokens that a query attends to, including itself


class DecoderLayer(Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, source: Source, config: DecoderConfig) -> None:
        self.input_norm = RMSNorm(source, "input_layernorm", config.hidden_size, config.norm_eps)
        self.attention = SelfAttention(
            source.at("self_attn"),
            config.hidden_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            qkv_bias=config.qkv_bias,
            out_bias=config.out_bias,
            qk_norm_eps=config.norm_eps if config.qk_norm else None,
        )
        self.post_norm = RMSNorm(source, "post_attention_layernorm", config.hidden_size, config.norm_eps)
        self.mlp = GatedMLP(source.at("mlp"), config.hidden_size, config.intermediate_size)

    def __call__(self, x: Tensor, batch: Batch, cache: LayerCache, rotary: RotaryTable | None) -> Tensor:
        x = self.attention(self.input_norm(x), batch, cache, rotary, residual=x)
        return self.mlp(self.post_norm(x), residual=x, adapters=batch.adapters)
