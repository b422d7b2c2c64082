"""Whisper: a log-mel encoder and a decoder with a `cross` cache group. arXiv:2212.04356."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.attention import CrossAttention, SelfAttention
from antiphon.layers.linear import Embedding, Head
from antiphon.layers.log_mel import LogMel
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.companions import COMPANIONS
from antiphon.models.base.metadata import require
from antiphon.models.base.model import CausalLM, Task
from antiphon.models.base.parts import (
    CrossStates,
    Encoder,
    Part,
    Recordable,
    SoundFeatures,
    VocabularyKind,
    WeightRules,
)
from antiphon.models.whisper_alignment import Heads, alignment_heads
from antiphon.models.whisper_encoder import NORM_EPS, PROJECTIONS, EncoderSizes, WhisperEncoder
from antiphon.ops import Batch, CacheGroup, CacheKind, KVCache, LayerCache
from antiphon.ops.program import InputSpec
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source, TensorNames

SELF_GROUP = "self"
CROSS_GROUP = "cross"


def _openai_names() -> dict[str, str]:
    names = {
        "model.encoder.embed_positions.weight": "encoder.positional_embedding",
        "model.decoder.embed_positions.weight": "decoder.positional_embedding",
        "model.decoder.embed_tokens.weight": "decoder.token_embedding.weight",
    }
    pairs = [("model.encoder.layer_norm", "encoder.ln_post"), ("model.decoder.layer_norm", "decoder.ln")]
    pairs += [(f"model.encoder.conv{n}", f"encoder.conv{n}") for n in (1, 2)]
    for side in ("encoder", "decoder"):
        ours, theirs = f"model.{side}.layers.{{}}", f"{side}.blocks.{{}}"
        pairs += [
            (f"{ours}.{a}", f"{theirs}.{b}")
            for a, b in (
                ("self_attn_layer_norm", "attn_ln"),
                ("encoder_attn_layer_norm", "cross_attn_ln"),
                ("final_layer_norm", "mlp_ln"),
                ("fc1", "mlp.0"),
                ("fc2", "mlp.2"),
            )
        ]
        for a, b in (("self_attn", "attn"), ("encoder_attn", "cross_attn")):
            projections = zip(PROJECTIONS, ("query", "key", "value", "out"), strict=True)
            pairs += [(f"{ours}.{a}.{ours_}", f"{theirs}.{b}.{theirs_}") for ours_, theirs_ in projections]
    return names | {f"{a}.{kind}": f"{b}.{kind}" for a, b in pairs for kind in ("weight", "bias")}


@dataclass(frozen=True)
class WhisperConfig:
    vocab_size: int
    num_mels: int
    hidden_size: int
    encoder_layers: int
    encoder_heads: int
    encoder_intermediate: int
    decoder_layers: int
    decoder_heads: int
    decoder_intermediate: int
    audio_positions: int  # encoder states of a 30 s window
    text_positions: int
    #: Cross-attention heads (layer, head) that follow the sound, from which word timestamps are computed.
    alignment_heads: Heads = ()

    @property
    def encoder(self) -> EncoderSizes:
        return EncoderSizes(
            num_mels=self.num_mels,
            hidden=self.hidden_size,
            layers=self.encoder_layers,
            heads=self.encoder_heads,
            intermediate=self.encoder_intermediate,
            positions=self.audio_positions,
        )


#: Names of the config's fields, Hugging Face's and OpenAI's.
_SIZES = {
    "vocab_size": ("vocab_size", "n_vocab"),
    "num_mels": ("num_mel_bins", "n_mels"),
    "hidden_size": ("d_model", "n_audio_state"),
    "encoder_layers": ("encoder_layers", "n_audio_layer"),
    "encoder_heads": ("encoder_attention_heads", "n_audio_head"),
    "encoder_intermediate": ("encoder_ffn_dim", None),
    "decoder_layers": ("decoder_layers", "n_text_layer"),
    "decoder_heads": ("decoder_attention_heads", "n_text_head"),
    "decoder_intermediate": ("decoder_ffn_dim", None),
    "audio_positions": ("max_source_positions", "n_audio_ctx"),
    "text_positions": ("max_target_positions", "n_text_ctx"),
}


def read_config(metadata: Mapping[str, Any], *, is_openai: bool) -> WhisperConfig:
    """Read the config by Hugging Face's names, or by OpenAI's, which state no MLP width."""
    sizes = {field: require(metadata, name) for field, names in _SIZES.items() if (name := names[is_openai])}
    if is_openai:
        sizes["encoder_intermediate"] = 4 * sizes["hidden_size"]
        sizes["decoder_intermediate"] = 4 * require(metadata, "n_text_state")
    shape = sizes["decoder_layers"], sizes["decoder_heads"], sizes["vocab_size"]
    stated = None if is_openai else metadata.get("alignment_heads")
    return WhisperConfig(**sizes, alignment_heads=alignment_heads(*shape, stated))


class WhisperDecoderLayer(Module):
    """A pre-norm block of causal self-attention, cross-attention and MLP."""

    def __init__(self, source: Source, config: WhisperConfig) -> None:
        hidden, heads = config.hidden_size, config.decoder_heads
        self.self_norm = LayerNorm(source, "self_attn_layer_norm", hidden, NORM_EPS)
        self.self_attention = SelfAttention(
            source.at("self_attn"),
            hidden,
            heads,
            heads,
            hidden // heads,
            qkv_bias=True,
            out_bias=True,
            names=PROJECTIONS,
        )
        self.cross_norm = LayerNorm(source, "encoder_attn_layer_norm", hidden, NORM_EPS)
        self.cross_attention = CrossAttention(source.at("encoder_attn"), hidden, heads, PROJECTIONS)
        self.mlp_norm = LayerNorm(source, "final_layer_norm", hidden, NORM_EPS)
        self.mlp = MLP(source, "fc1", "fc2", hidden, config.decoder_intermediate, "gelu")

    def __call__(
        self,
        x: Tensor,
        batch: Batch,
        cache: LayerCache,
        cross: LayerCache,
        heads: Sequence[int] = (),
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the states after the layer; append the cross-attention probabilities of `heads` to `seen`."""
        x = self.self_attention(self.self_norm(x), batch, cache, None, residual=x)
        query = self.cross_norm(x)
        if heads and seen is not None:
            seen.append(self.cross_attention.probabilities(query, batch, cross, heads))
        x = self.cross_attention(query, batch, cross, residual=x)
        return self.mlp(self.mlp_norm(x), residual=x)


class Whisper(CausalLM):
    """A model that encodes windows of log-mel frames and decodes tokens with cross-attention to the encoder states."""

    architectures = ("whisper",)
    task = Task.TRANSCRIBE
    vocabulary = VocabularyKind.WHISPER
    companions = COMPANIONS["transcribe"]
    #: The weights are published in fp16, and activations stay within its range.
    preferred_type = torch.float16

    def __init__(self, config: WhisperConfig, source: Source) -> None:
        self.config = config
        self.vocab_size = config.vocab_size
        self.max_positions = config.text_positions
        self.cross_tokens = config.audio_positions
        self.log_mel = LogMel(config.num_mels, 2 * config.audio_positions)
        hidden, decoder = config.hidden_size, source.at("model", "decoder")
        self.encoder = WhisperEncoder(source.at("model", "encoder"), config.encoder)
        self.embedding = Embedding(decoder, "embed_tokens", config.vocab_size, hidden)
        self.text_position = Embedding(decoder, "embed_positions", config.text_positions, hidden)
        self.decoder_layers = [
            WhisperDecoderLayer(decoder.at("layers", i), config) for i in range(config.decoder_layers)
        ]
        self.decoder_norm = LayerNorm(decoder, "layer_norm", hidden, NORM_EPS)
        self.head = Head(source, "proj_out", self.embedding)

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        is_openai = checkpoint.format in ("openai-whisper", "ggml-whisper")
        config = read_config(checkpoint.metadata, is_openai=is_openai)
        return cls(config, Source(checkpoint, TensorNames(_openai_names()) if is_openai else None))

    def cache_groups(self) -> list[CacheGroup]:
        config = self.config
        shape = (config.decoder_layers, config.decoder_heads, config.hidden_size // config.decoder_heads)
        return [
            CacheGroup(SELF_GROUP, CacheKind.FULL, *shape),
            CacheGroup(CROSS_GROUP, CacheKind.CROSS, *shape),
        ]

    def cross_states(self) -> CrossStates:
        return CrossStates(
            group=CROSS_GROUP,
            num_states=self.cross_tokens,
            width=self.config.hidden_size,
            store=self.store_encoded,
            forward_aligned=self.forward_aligned,
        )

    def parts(self) -> tuple[Part, ...]:
        features = InputSpec("features", torch.float32, ("B", ("S", 0, 2), self.config.num_mels))
        seq_start = InputSpec("seq_start", torch.int32, (("B", 1),))
        encoder = Encoder(
            owner="Whisper",
            num_stages=self.encoder.num_stages,
            num_states=self.cross_tokens,
            run_stage=self.encoder.run_stage,
            # Encoder states of B windows of 2 S frames.
            encode=Recordable("Whisper", "encode", (features, seq_start), lambda x, _: self.encode(**x)),
            features=SoundFeatures(self.log_mel.num_samples, self.log_mel),
        )
        return encoder, self.decoder()

    def weight_rules(self) -> WeightRules:
        cross = (layer.cross_attention.key_value.weight for layer in self.decoder_layers)
        return replace(WeightRules.of(self), batched=(*self.encoder.weights(), *cross), auto_quantize="int8")

    def encode(self, features: Tensor, seq_start: Tensor) -> Tensor:
        """Return states [B * T, hidden] of windows [B, 2 * T, mels]; seq_start [B + 1] counts states, T each."""
        return self.encoder(features, seq_start)

    def store_encoded(self, encoded: Tensor, batch: Batch, cache: KVCache) -> None:
        """Write every decoder layer's cross keys and values of encoder states to the batch's cross slots."""
        for index, layer in enumerate(self.decoder_layers):
            layer.cross_attention.store(encoded, cache.layer(CROSS_GROUP, index), batch)

    def forward(self, batch: Batch, cache: KVCache) -> Tensor:
        return self._decode(batch, cache, {}, None)

    def forward_aligned(self, batch: Batch, cache: KVCache) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of `forward`, and per layer the cross-attention probabilities of its alignment heads.

        The probabilities are [heads, T, cross_tokens], of the heads that follow the input from left to right.
        """
        heads: dict[int, list[int]] = {}
        for layer, head in self.config.alignment_heads:
            heads.setdefault(layer, []).append(head)
        seen: list[Tensor] = []
        logits = self._decode(batch, cache, heads, seen)
        return logits, seen

    def _decode(
        self, batch: Batch, cache: KVCache, heads: Mapping[int, Sequence[int]], seen: list[Tensor] | None
    ) -> Tensor:
        x = self.embedding.inputs(batch)
        x = ops.add(x, self.text_position(batch.positions))  # [T, hidden]
        for index, layer in enumerate(self.decoder_layers):
            caches = cache.layer(SELF_GROUP, index), cache.layer(CROSS_GROUP, index)
            x = layer(x, batch, *caches, heads.get(index, ()), seen)
        return self.head(self.decoder_norm(ops.gather_rows(x, batch.logit_rows)))  # [L, vocab]
