"""GPT-2: learned positions, layer norm, plain MLP. "Language Models are Unsupervised Multitask Learners" (2019)."""

from __future__ import annotations

from typing import Self

from torch import Tensor

from antiphon import ops
from antiphon.errors import UnsupportedError
from antiphon.layers.attention import SelfAttention
from antiphon.layers.decoder import TransformerSizes
from antiphon.layers.linear import Embedding, Head
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.metadata import GGUFKeys, require
from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache, LayerCache
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.config_values import number, size
from antiphon.weights.source import Source, TensorNames
from antiphon.weights.weight import Weight

GGUF_NAMES = {
    "wte.weight": "token_embd.weight",
    "wpe.weight": "position_embd.weight",
    "lm_head.weight": "output.weight",
    "ln_f.weight": "output_norm.weight",
    "ln_f.bias": "output_norm.bias",
    **{
        f"h.{{}}.{ours}.{kind}": f"blk.{{}}.{theirs}.{kind}"
        for ours, theirs in (
            ("ln_1", "attn_norm"),
            ("attn.c_attn", "attn_qkv"),
            ("attn.c_proj", "attn_output"),
            ("ln_2", "ffn_norm"),
            ("mlp.c_fc", "ffn_up"),
            ("mlp.c_proj", "ffn_down"),
        )
        for kind in ("weight", "bias")
    },
}

CACHE_GROUP = "self"


class TransposedSource(Source):
    """A source for Hugging Face's GPT-2, which stores products as [inputs, outputs]."""

    def weight(self, name: str, shape: tuple[int, int]) -> Weight:
        if not name.startswith("c_"):
            return super().weight(name, shape)
        return Weight.from_tensor(self.tensor(name, (shape[1], shape[0])).T.contiguous())


class GPT2Layer(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), all with biases."""

    def __init__(self, source: Source, config: TransformerSizes) -> None:
        hidden, heads = config.hidden_size, config.num_heads
        self.attention_norm = LayerNorm(source, "ln_1", hidden, config.norm_eps)
        self.attention = SelfAttention(
            source.at("attn"), hidden, heads, heads, hidden // heads, qkv_bias=True, out_bias=True,
            names=("c_attn", "c_proj"),
        )  # fmt: skip
        self.mlp_norm = LayerNorm(source, "ln_2", hidden, config.norm_eps)
        self.mlp = MLP(source.at("mlp"), "c_fc", "c_proj", hidden, config.intermediate_size, "gelu_tanh")

    def __call__(self, x: Tensor, batch: Batch, cache: LayerCache) -> Tensor:
        x = self.attention(self.attention_norm(x), batch, cache, None, residual=x)
        return self.mlp(self.mlp_norm(x), x, batch.adapters)


class GPT2(CausalLM):
    architectures = ("gpt2",)
    ignores = ("*.attn.bias", "*.attn.masked_bias")

    def __init__(self, config: TransformerSizes, source: Source) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.max_positions = config.max_positions
        self.embedding = Embedding(source, "wte", config.vocab_size, config.hidden_size)
        self.position = Embedding(source, "wpe", config.max_positions, config.hidden_size)
        self.layers = [GPT2Layer(source.at("h", index), config) for index in range(config.num_layers)]
        self.norm = LayerNorm(source, "ln_f", config.hidden_size, config.norm_eps)
        self.head = Head(source, "lm_head", self.embedding)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        if checkpoint.format == "gguf":
            keys = GGUFKeys(checkpoint)
            sizes = keys.sizes(4 * keys.integer("embedding_length"))
            config = TransformerSizes(**sizes, norm_eps=keys.number("attention.layer_norm_epsilon"))
            return cls(config, Source(checkpoint, TensorNames(GGUF_NAMES)))
        metadata = checkpoint.metadata
        activation = metadata.get("activation_function", "gelu_new")
        if activation != "gelu_new":
            raise UnsupportedError(f"gpt2 with activation {activation!r} is not supported; only 'gelu_new'")
        for option in ("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn"):
            if metadata.get(option):
                raise UnsupportedError(f"gpt2 with {option} is not supported")
        hidden = require(metadata, "n_embd")
        config = TransformerSizes(
            vocab_size=require(metadata, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=size(metadata, "n_inner", 4 * hidden),
            num_layers=require(metadata, "n_layer"),
            num_heads=require(metadata, "n_head"),
            norm_eps=number(metadata, "layer_norm_epsilon", 1e-5),
            max_positions=require(metadata, "n_positions"),
        )
        prefix = "transformer." if checkpoint.has("transformer.wte.weight") else ""
        return cls(
            config, TransposedSource(checkpoint, lambda name: name if name == "lm_head.weight" else prefix + name)
        )

    def gguf_name(self, name: str) -> str:
        return TensorNames(GGUF_NAMES)(name)

    def cache_groups(self) -> list[CacheGroup]:
        config = self.config
        head_dim = config.hidden_size // config.num_heads
        return [CacheGroup(CACHE_GROUP, CacheKind.FULL, config.num_layers, config.num_heads, head_dim)]

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        x = self.embedding.inputs(batch)
        x = ops.add(x, self.position(batch.positions))  # [T, hidden]
        for index, layer in enumerate(self.layers):
            x = layer(x, batch, cache.layer(CACHE_GROUP, index))
        return self.head(self.norm(ops.gather_rows(x, batch.logit_rows)))  # [L, vocab]
