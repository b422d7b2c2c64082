"""Gemma 3 (text): window and global layers in a pattern, four norms per block, query/key norm. arXiv:2503.19786."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from antiphon import ops
from antiphon.errors import CheckpointError, UnsupportedError
from antiphon.layers.attention import SelfAttention
from antiphon.layers.decoder import TransformerSizes
from antiphon.layers.linear import Embedding, Head
from antiphon.layers.mlp import GatedMLP
from antiphon.layers.module import Module
from antiphon.layers.norm import RMSNorm
from antiphon.layers.rotary import RotaryConfig, frequencies, rotary_from_gguf, rotary_table
from antiphon.models.base.decoder import GGUF_NAMES
from antiphon.models.base.metadata import GGUFKeys, hf_sizes, require
from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache, LayerCache, RotaryTable
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import number, section, shown, size
from antiphon.weights.source import Source, TensorNames

GEMMA_GGUF_NAMES = GGUF_NAMES | {
    "model.layers.{}.post_attention_layernorm.weight": "blk.{}.post_attention_norm.weight",
    "model.layers.{}.pre_feedforward_layernorm.weight": "blk.{}.ffn_norm.weight",
    "model.layers.{}.post_feedforward_layernorm.weight": "blk.{}.post_ffw_norm.weight",
}

GLOBAL_GROUP = "global"
WINDOW_GROUP = "window"
#: Distance between global layers, in all published sizes.
GLOBAL_EVERY = 6


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(TransformerSizes):
    num_kv_heads: int
    head_dim: int
    window: int
    query_scale: float
    layer_is_global: tuple[bool, ...]
    global_rotary: RotaryConfig
    window_rotary: RotaryConfig
    norm_offset: float  # added to the stored norm weights


def _pattern(num_layers: int, every: int = GLOBAL_EVERY) -> tuple[bool, ...]:
    return tuple((layer + 1) % every == 0 for layer in range(num_layers))


def config_from_hf(config: Mapping[str, Any]) -> Gemma3Config:
    for key in ("attn_logit_softcapping", "final_logit_softcapping", "attention_bias"):
        if config.get(key):
            raise UnsupportedError(f"gemma3 with {key} is not supported")
    sizes, head_dim = hf_sizes(config), require(config, "head_dim")
    kinds = config.get("layer_types")
    if kinds is not None and not isinstance(kinds, list):
        raise CheckpointError(f"config key 'layer_types' is {shown(kinds)}, not a list")
    every = size(config, "sliding_window_pattern", GLOBAL_EVERY)
    rope = section(config, "rope_parameters")
    full, local = section(rope, "full_attention"), section(rope, "sliding_attention")
    scaling = section(config, "rope_scaling") or full
    kind = scaling.get("rope_type", "default")
    if kind not in ("default", "linear"):
        raise UnsupportedError(f"gemma3 with rotary scaling {kind!r} is not supported")
    theta = number(full, "rope_theta", number(config, "rope_theta", 1e6))
    local_theta = number(local, "rope_theta", number(config, "rope_local_base_freq", 1e4))
    factor = number(scaling, "factor") if kind == "linear" else 1.0
    return Gemma3Config(
        **sizes,
        num_kv_heads=require(config, "num_key_value_heads"),
        head_dim=head_dim,
        norm_eps=number(config, "rms_norm_eps", 1e-6),
        window=require(config, "sliding_window"),
        query_scale=number(config, "query_pre_attn_scalar", head_dim) ** -0.5,
        layer_is_global=tuple(k == "full_attention" for k in kinds) if kinds else _pattern(sizes["num_layers"], every),
        global_rotary=RotaryConfig(head_dim, theta, linear_factor=factor),
        window_rotary=RotaryConfig(head_dim, local_theta),
        norm_offset=1.0,
    )


def config_from_gguf(checkpoint: Checkpoint) -> Gemma3Config:
    keys = GGUFKeys(checkpoint)
    sizes, head_dim = keys.sizes(), keys.integer("attention.key_length")
    # The 27B model scales queries by hidden / heads instead of the head size, which the file does not state.
    query_width = sizes["hidden_size"] // sizes["num_heads"] if sizes["num_layers"] == 62 else head_dim
    return Gemma3Config(
        **sizes,
        num_kv_heads=keys.integer("attention.head_count_kv"),
        head_dim=head_dim,
        norm_eps=keys.number("attention.layer_norm_rms_epsilon"),
        window=keys.integer("attention.sliding_window"),
        query_scale=query_width**-0.5,
        layer_is_global=_pattern(sizes["num_layers"]),
        global_rotary=rotary_from_gguf(checkpoint.metadata, checkpoint.architecture, head_dim),
        window_rotary=RotaryConfig(head_dim, keys.number("rope.freq_base_swa", 1e4)),
        norm_offset=0.0,
    )


class Gemma3Layer(Module):
    """x + norm(attention(norm(x))), then x + norm(mlp(norm(x)))."""

    def __init__(self, source: Source, config: Gemma3Config) -> None:
        def norm(name: str) -> RMSNorm:
            return RMSNorm(source, name, config.hidden_size, config.norm_eps, config.norm_offset)

        self.input_norm = norm("input_layernorm")
        self.post_attention_norm = norm("post_attention_layernorm")
        self.pre_mlp_norm = norm("pre_feedforward_layernorm")
        self.post_mlp_norm = norm("post_feedforward_layernorm")
        self.attention = SelfAttention(
            source.at("self_attn"),
            config.hidden_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            scale=config.query_scale,
            qk_norm_eps=config.norm_eps,
            norm_offset=config.norm_offset,
        )
        self.mlp = GatedMLP(source.at("mlp"), config.hidden_size, config.intermediate_size, "gelu_tanh_gate")

    def __call__(self, x: Tensor, batch: Batch, cache: LayerCache, rotary: RotaryTable) -> Tensor:
        y = self.attention(self.input_norm(x), batch, cache, rotary)
        y, x = self.pre_mlp_norm.after(self.post_attention_norm(y), x)
        return ops.add(self.post_mlp_norm(self.mlp(y, adapters=batch.adapters)), x)


class Gemma3(CausalLM):
    """Gemma 3 with two cache groups: `global` keeps every token, `window` only the tokens that its layers attend to."""

    architectures = ("gemma3", "gemma3_text")

    def __init__(self, config: Gemma3Config, source: Source) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.max_positions = config.max_positions
        tree = source.at("model")
        scale = math.sqrt(config.hidden_size)
        self.embedding = Embedding(tree, "embed_tokens", config.vocab_size, config.hidden_size, scale)
        self.layers = [Gemma3Layer(tree.at("layers", index), config) for index in range(len(config.layer_is_global))]
        self.norm = RMSNorm(tree, "norm", config.hidden_size, config.norm_eps, config.norm_offset)
        self.head = Head(source, "lm_head", self.embedding)
        self.rotaries = {
            GLOBAL_GROUP: rotary_table(frequencies(config.global_rotary), config.max_positions),
            WINDOW_GROUP: rotary_table(frequencies(config.window_rotary), config.max_positions),
        }
        groups = [GLOBAL_GROUP if is_global else WINDOW_GROUP for is_global in config.layer_is_global]
        #: Cache group of each layer, and the layer's index in it.
        self.cache_indexes = [(group, groups[:layer].count(group)) for layer, group in enumerate(groups)]
        self._counts = Counter(groups)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        if checkpoint.format == "gguf":
            return cls(config_from_gguf(checkpoint), Source(checkpoint, TensorNames(GEMMA_GGUF_NAMES)))
        return cls(config_from_hf(checkpoint.metadata), Source(checkpoint))

    def gguf_name(self, name: str) -> str:
        return TensorNames(GEMMA_GGUF_NAMES)(name)

    def cache_groups(self) -> list[CacheGroup]:
        heads, head_dim = self.config.num_kv_heads, self.config.head_dim
        groups = [
            CacheGroup(GLOBAL_GROUP, CacheKind.FULL, self._counts[GLOBAL_GROUP], heads, head_dim),
            CacheGroup(WINDOW_GROUP, CacheKind.WINDOW, self._counts[WINDOW_GROUP], heads, head_dim, self.config.window),
        ]
        return [group for group in groups if group.num_layers]

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        x = self.embedding.inputs(batch)  # [T, hidden]
        for layer, (group, index) in zip(self.layers, self.cache_indexes, strict=True):
            x = layer(x, batch, cache.layer(group, index), self.rotaries[group])
        return self.head(self.norm(ops.gather_rows(x, batch.logit_rows)))  # [L, vocab]
