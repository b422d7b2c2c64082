"""Decoder-only models with pre-norm blocks: the modules and name tables shared by Llama, Qwen2 and Qwen3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.layers.decoder import DecoderConfig, DecoderLayer
from antiphon.layers.linear import Embedding, Head
from antiphon.layers.norm import RMSNorm
from antiphon.layers.rotary import frequencies, rotary_from_gguf, rotary_from_hf, rotary_table
from antiphon.models.base.metadata import GGUFKeys, hf_sizes
from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache, RotaryTable
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import number, size
from antiphon.weights.source import Source, TensorNames

GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
    "model.rope_divisors": "rope_freqs.weight",
    "model.layers.{}.input_layernorm.weight": "blk.{}.attn_norm.weight",
    "model.layers.{}.post_attention_layernorm.weight": "blk.{}.ffn_norm.weight",
    "model.layers.{}.self_attn.q_proj.weight": "blk.{}.attn_q.weight",
    "model.layers.{}.self_attn.k_proj.weight": "blk.{}.attn_k.weight",
    "model.layers.{}.self_attn.v_proj.weight": "blk.{}.attn_v.weight",
    "model.layers.{}.self_attn.o_proj.weight": "blk.{}.attn_output.weight",
    "model.layers.{}.self_attn.q_proj.bias": "blk.{}.attn_q.bias",
    "model.layers.{}.self_attn.k_proj.bias": "blk.{}.attn_k.bias",
    "model.layers.{}.self_attn.v_proj.bias": "blk.{}.attn_v.bias",
    "model.layers.{}.self_attn.o_proj.bias": "blk.{}.attn_output.bias",
    "model.layers.{}.self_attn.q_norm.weight": "blk.{}.attn_q_norm.weight",
    "model.layers.{}.self_attn.k_norm.weight": "blk.{}.attn_k_norm.weight",
    "model.layers.{}.mlp.gate_proj.weight": "blk.{}.ffn_gate.weight",
    "model.layers.{}.mlp.up_proj.weight": "blk.{}.ffn_up.weight",
    "model.layers.{}.mlp.down_proj.weight": "blk.{}.ffn_down.weight",
}

CACHE_GROUP = "self"


def config_from_hf(config: Mapping[str, Any]) -> DecoderConfig:
    """Return the config fields shared by all `config.json` files of this family."""
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedError(
            f"{config.get('model_type')} with hidden_act {activation!r} is not supported; only 'silu'"
        )
    if config.get("mlp_bias"):
        raise UnsupportedError(f"{config.get('model_type')} with mlp_bias is not supported")
    sizes = hf_sizes(config)
    heads = sizes["num_heads"]
    head_dim = size(config, "head_dim", max(1, sizes["hidden_size"] // heads))
    return DecoderConfig(
        **sizes,
        num_kv_heads=size(config, "num_key_value_heads", heads),
        head_dim=head_dim,
        norm_eps=number(config, "rms_norm_eps", 1e-6),
        rotary=rotary_from_hf(config, head_dim),
    )


def config_from_gguf(checkpoint: Checkpoint) -> DecoderConfig:
    """Return the config fields shared by all GGUF files of this family."""
    keys = GGUFKeys(checkpoint)
    if keys.get("expert_count", 0):
        raise UnsupportedError(f"{checkpoint.architecture} with a mixture of experts is not supported")
    sizes = keys.sizes()
    heads = sizes["num_heads"]
    head_dim = keys.integer("attention.key_length", sizes["hidden_size"] // heads)
    rotated = keys.integer("rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise UnsupportedError(
            f"{checkpoint.architecture} that rotates {rotated} of {head_dim} channels is not supported"
        )
    return DecoderConfig(
        **sizes,
        num_kv_heads=keys.integer("attention.head_count_kv", heads),
        head_dim=head_dim,
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        rotary=rotary_from_gguf(checkpoint.metadata, checkpoint.architecture, head_dim),
    )


def half_split_order(num_heads: int, head_dim: int) -> Tensor:
    """Return the half-split row order of a query or key matrix that is stored with interleaved rotary pairs."""
    pairs = torch.arange(num_heads * head_dim).view(num_heads, head_dim // 2, 2)
    return pairs.transpose(1, 2).reshape(-1)


class DecoderModel(CausalLM):
    """A model of embedding, pre-norm blocks with one cache group, final norm, and head."""

    def __init__(self, config: DecoderConfig, source: Source) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.max_positions = config.max_positions
        tree = source.at("model")
        self.embedding = Embedding(tree, "embed_tokens", config.vocab_size, config.hidden_size)
        self.layers = [DecoderLayer(tree.at("layers", index), config) for index in range(config.num_layers)]
        self.norm = RMSNorm(tree, "norm", config.hidden_size, config.norm_eps)
        self.head = Head(source, "lm_head", self.embedding)
        has_divisors = tree.has("rope_divisors")
        divisors = tree.tensor("rope_divisors", (config.head_dim // 2,)) if has_divisors else None
        self.rotary = rotary_table(frequencies(config.rotary, divisors), config.max_positions)

    @classmethod
    def adapt_config(cls, config: DecoderConfig, checkpoint: Checkpoint) -> DecoderConfig:
        """Return the shared config with this architecture's own fields added."""
        return config

    def gguf_name(self, name: str) -> str:
        return TensorNames(GGUF_NAMES)(name)

    @classmethod
    def source(cls, checkpoint: Checkpoint, config: DecoderConfig) -> Source:
        """Return the checkpoint under Hugging Face's names."""
        return Source(checkpoint, TensorNames(GGUF_NAMES) if checkpoint.format == "gguf" else None)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        gguf = checkpoint.format == "gguf"
        config = config_from_gguf(checkpoint) if gguf else config_from_hf(checkpoint.metadata)
        config = cls.adapt_config(config, checkpoint)
        return cls(config, cls.source(checkpoint, config))

    def cache_groups(self) -> list[CacheGroup]:
        config = self.config
        kind = CacheKind.FULL if config.window is None else CacheKind.WINDOW
        group = CacheGroup(CACHE_GROUP, kind, config.num_layers, config.num_kv_heads, config.head_dim, config.window)
        return [group]

    def key_balance(self, group: str, layer: int) -> Tensor | None:
        own = self.layers[layer]
        return own.attention.key_balance(own.input_norm.weight)

    def rotary_of(self, layer: int) -> RotaryTable | None:
        """Return the rotary table of a layer, or None for a layer without rotary positions."""
        return self.rotary

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        x = self.embedding.inputs(batch)  # [T, hidden]
        for index, layer in enumerate(self.layers):
            x = layer(x, batch, cache.layer(CACHE_GROUP, index), self.rotary_of(index))
        return self.head(self.norm(ops.gather_rows(x, batch.logit_rows)))  # [L, vocab]
