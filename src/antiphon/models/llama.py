"""Llama 2 and 3, Mistral, SmolLM2, TinyLlama. arXiv:2302.13971, 2307.09288, 2407.21783."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor

from antiphon.layers.decoder import DecoderConfig
from antiphon.models.base.decoder import GGUF_NAMES, DecoderModel, half_split_order
from antiphon.models.base.metadata import GGUFKeys
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import size
from antiphon.weights.source import Source, TensorNames


class Llama(DecoderModel):
    """Llama's pre-norm blocks. GGUF and llama2.c files store rotary pairs interleaved; their rows are reordered."""

    architectures = ("llama", "mistral")

    @classmethod
    def adapt_config(cls, config: DecoderConfig, checkpoint: Checkpoint) -> DecoderConfig:
        if checkpoint.format == "gguf":
            window, bias = GGUFKeys(checkpoint).get("attention.sliding_window"), checkpoint.has("blk.0.attn_q.bias")
            return replace(
                config, window=window or None, qkv_bias=bias, out_bias=checkpoint.has("blk.0.attn_output.bias")
            )
        bias = bool(checkpoint.metadata.get("attention_bias"))
        return replace(
            config, window=size(checkpoint.metadata, "sliding_window", 0) or None, qkv_bias=bias, out_bias=bias
        )

    @classmethod
    def source(cls, checkpoint: Checkpoint, config: DecoderConfig) -> Source:
        if checkpoint.format == "hf":
            return super().source(checkpoint, config)
        names = TensorNames(GGUF_NAMES) if checkpoint.format == "gguf" else None
        return Source(checkpoint, names, interleaved_row_order(config))

    def gguf_row_order(self, name: str) -> Tensor | None:
        return interleaved_row_order(self.config)(name)


def interleaved_row_order(config: DecoderConfig) -> Callable[[str], Tensor | None]:
    """Return a function from tensor name to row order, for files that store rotary pairs interleaved."""
    orders = {
        "q_proj": half_split_order(config.num_heads, config.head_dim),
        "k_proj": half_split_order(config.num_kv_heads, config.head_dim),
    }

    def row_order(name: str) -> Tensor | None:
        return orders.get(name.split(".")[-2]) if "self_attn" in name else None

    return row_order
