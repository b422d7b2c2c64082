"""Kokoro's text side: PL-BERT, the text encoder, and the predictors of duration, pitch and energy."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.attention import EncoderAttention
from antiphon.layers.convolution import Convolution
from antiphon.layers.linear import Embedding, Linear
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.layers.recurrent import BidirectionalLSTM
from antiphon.models.base.speech_state import FlatRows
from antiphon.models.kokoro.blocks import NORM_EPS, SLOPE, StyleBlock, StyleGain
from antiphon.models.kokoro.config import KokoroConfig
from antiphon.weights.source import Source

BERT_EPS = 1e-12
EMBEDDING_SIZE = 128
_ATTENTION = ("query", "key", "value", "dense")


class PhonemeBert(Module):
    """ALBERT over phonemes (PL-BERT, arXiv:2301.08810): one layer, applied many times, on concatenated ids."""

    def __init__(self, source: Source, config: KokoroConfig) -> None:
        hidden, tables = config.bert_size, source.at("embeddings")
        self.words = Embedding(tables, "word_embeddings", config.num_symbols, EMBEDDING_SIZE)
        self.positions = Embedding(tables, "position_embeddings", config.max_positions, EMBEDDING_SIZE)
        self.token_type = tables.tensor("token_type_embeddings.weight", (2, EMBEDDING_SIZE))[0]
        self.embedding_norm = LayerNorm(tables, "LayerNorm", EMBEDDING_SIZE, BERT_EPS)
        self.widen = Linear(source.at("encoder"), "embedding_hidden_mapping_in", EMBEDDING_SIZE, hidden, bias=True)
        layer = source.at("encoder", "albert_layer_groups", 0, "albert_layers", 0)
        self.attention = EncoderAttention(layer.at("attention"), hidden, config.bert_heads, _ATTENTION)
        self.attention_norm = LayerNorm(layer, "attention.LayerNorm", hidden, BERT_EPS)
        self.mlp = MLP(layer, "ffn", "ffn_output", hidden, config.bert_intermediate, "gelu_tanh")
        self.output_norm = LayerNorm(layer, "full_layer_layer_norm", hidden, BERT_EPS)
        self.num_layers = config.bert_layers

    def __call__(self, rows: FlatRows) -> Tensor:
        x = ops.add(ops.add(self.words(rows.ids), self.positions(rows.positions)), self.token_type)
        x = self.widen(self.embedding_norm(x))  # [T, hidden]
        for _ in range(self.num_layers):
            x = self.attention_norm(self.attention(x, rows.seq_start, residual=x))
            x = self.output_norm(self.mlp(x, residual=x))
        return x


class TextEncoder(Module):
    """An encoder of the phonemes' sound: convolutions, then a bidirectional LSTM.

    Returns [B, T, hidden], zero beyond the lengths.
    """

    def __init__(self, source: Source, config: KokoroConfig) -> None:
        hidden = config.hidden_size
        self.embedding = Embedding(source, "embedding", config.num_symbols, hidden)
        depth = range(config.num_layers)
        self.convs = [Convolution(source, f"cnn.{n}.0", hidden, hidden, config.text_kernel) for n in depth]
        self.norms = [
            (source.tensor(f"cnn.{n}.1.gamma", (hidden,)), source.tensor(f"cnn.{n}.1.beta", (hidden,))) for n in depth
        ]
        self.lstm = BidirectionalLSTM(source, "lstm", hidden, hidden // 2)

    def __call__(self, rows: FlatRows) -> Tensor:
        x = ops.pad_rows(self.embedding(rows.ids), rows.seq_start, rows.longest)
        for conv, (weight, bias) in zip(self.convs, self.norms, strict=True):
            x = ops.leaky_relu(ops.layer_norm(conv(x), weight, bias, NORM_EPS)[0], SLOPE, rows.lengths)
        return self.lstm(x, rows.lengths)


class DurationEncoder(Module):
    """LSTMs with norms between them, and the style appended to every frame. Returns [B, T, hidden + style]."""

    def __init__(self, source: Source, config: KokoroConfig) -> None:
        hidden, style = config.hidden_size, config.style_size
        depth = range(config.num_layers)
        self.lstms = [BidirectionalLSTM(source, f"lstms.{2 * n}", hidden + style, hidden // 2) for n in depth]
        self.gains = [StyleGain(source.at("lstms", 2 * n + 1), style, hidden) for n in depth]
        self.ones = torch.ones(hidden)

    def __call__(self, x: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        beside = style[:, None, :].expand(-1, x.shape[1], -1)
        x = ops.mask_frames(ops.concatenate([x, beside]), lengths)
        for lstm, gain in zip(self.lstms, self.gains, strict=True):
            y = ops.layer_norm(lstm(x, lengths), self.ones, None, NORM_EPS)[0]
            y = ops.modulate(y, *gain(style), lengths)
            x = ops.mask_frames(ops.concatenate([y, beside]), lengths)
        return x


class CurvePredictor(Module):
    """A predictor of pitch or energy: two values per frame."""

    def __init__(self, source: Source, shortcut: Source, name: str, config: KokoroConfig) -> None:
        hidden, style = config.hidden_size, config.style_size
        own, own_shortcut = source.at(name), shortcut.at(name)
        self.blocks = [
            StyleBlock(own.at(0), own_shortcut.at(0), hidden, hidden, style),
            StyleBlock(own.at(1), own_shortcut.at(1), hidden, hidden // 2, style, upsample=True),
            StyleBlock(own.at(2), own_shortcut.at(2), hidden // 2, hidden // 2, style),
        ]
        self.out = Convolution(source, f"{name}_proj", hidden // 2, 1, 1)

    def __call__(self, x: Tensor, style: Tensor, lengths: Tensor) -> Tensor:
        x = self.blocks[0](x, style, lengths)
        x = self.blocks[1](x, style, lengths)
        x = self.blocks[2](x, style, lengths * 2)
        return ops.mask_frames(self.out(x), lengths * 2)  # [B, 2 * frames, 1]


class Predictor(Module):
    """A predictor of every phoneme's duration, and of the curves of pitch and energy over the frames."""

    def __init__(self, encoder: Source, config: KokoroConfig) -> None:
        source, hidden, style = encoder.at("predictor"), config.hidden_size, config.style_size
        self.text = DurationEncoder(source.at("text_encoder"), config)
        self.lstm = BidirectionalLSTM(source, "lstm", hidden + style, hidden // 2)
        self.durations = Linear(source, "duration_proj.linear_layer", hidden, config.max_duration, bias=True)
        self.shared = BidirectionalLSTM(encoder, "shared", hidden + style, hidden // 2)
        self.pitch = CurvePredictor(source, encoder, "F0", config)
        self.energy = CurvePredictor(source, encoder, "N", config)

    def frame_counts(self, encoded: Tensor, lengths: Tensor, speed: Tensor) -> Tensor:
        """Return the duration of each phoneme in frames [B, T]."""
        x = self.lstm(encoded, lengths)
        logits = self.durations(x.flatten(0, 1)).unflatten(0, x.shape[:2])
        return ops.frame_counts(logits, lengths, speed, "sigmoid")

    def curves(self, frames: Tensor, style: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return pitch in Hz and energy, each [B, 2 * frames, 1]."""
        x = self.shared(frames, lengths)
        return self.pitch(x, style, lengths), self.energy(x, style, lengths)
