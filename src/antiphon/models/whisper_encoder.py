"""Whisper's encoder: two convolutions over log-mel frames and pre-norm blocks. arXiv:2212.04356."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from antiphon import ops
from antiphon.layers.attention import EncoderAttention
from antiphon.layers.convolution import Convolution
from antiphon.layers.mlp import MLP
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.weights.source import Source

NORM_EPS = 1e-5
#: Hugging Face's names of an attention's projections.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")


@dataclass(frozen=True)
class EncoderSizes:
    num_mels: int
    hidden: int
    layers: int
    heads: int
    intermediate: int
    positions: int  # states of the longest window


class EncoderLayer(Module):
    """A pre-norm block with bidirectional attention."""

    def __init__(self, source: Source, sizes: EncoderSizes) -> None:
        hidden = sizes.hidden
        self.attention_norm = LayerNorm(source, "self_attn_layer_norm", hidden, NORM_EPS)
        self.attention = EncoderAttention(source.at("self_attn"), hidden, sizes.heads, PROJECTIONS, rounds=True)
        self.mlp_norm = LayerNorm(source, "final_layer_norm", hidden, NORM_EPS)
        self.mlp = MLP(source, "fc1", "fc2", hidden, sizes.intermediate, "gelu")

    def attend(self, x: Tensor, seq_start: Tensor) -> Tensor:
        return self.attention(self.attention_norm(x), seq_start, residual=x)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.mlp_norm(x), residual=x)


class WhisperEncoder(Module):
    """An encoder from windows of log-mel frames to states, one per two frames."""

    def __init__(self, source: Source, sizes: EncoderSizes) -> None:
        hidden = sizes.hidden
        self.conv1 = Convolution(source, "conv1", sizes.num_mels, hidden, 3, activation="gelu")
        self.conv2 = Convolution(source, "conv2", hidden, hidden, 3, stride=2, activation="gelu")
        self.position = source.tensor("embed_positions.weight", (sizes.positions, hidden))
        self.layers = [EncoderLayer(source.at("layers", index), sizes) for index in range(sizes.layers)]
        self.norm = LayerNorm(source, "layer_norm", hidden, NORM_EPS)

    @property
    def num_stages(self) -> int:
        """Number of stages: the convolutions, then two per layer, so an urgent step waits for half a layer at most."""
        return 1 + 2 * len(self.layers)

    def run_stage(self, stage: int, x: Tensor, seq_start: Tensor) -> Tensor:
        """Run a stage: stage 0 takes windows [B, 2 * T, mels]; every stage returns states [B * T, hidden]."""
        if stage == 0:
            x = self.conv2(self.conv1(x))  # [B, T, hidden]
            return ops.add(x, self.position[: x.shape[1]]).flatten(0, 1)
        layer = self.layers[(stage - 1) // 2]
        if stage % 2:
            return layer.attend(x, seq_start)
        x = layer.feed_forward(x)
        return self.norm(x) if stage == self.num_stages - 1 else x

    def __call__(self, features: Tensor, seq_start: Tensor) -> Tensor:
        """Return states [B * T, hidden] of windows [B, 2 * T, mels]; seq_start [B + 1] counts states, T each."""
        x = features
        for stage in range(self.num_stages):
            x = self.run_stage(stage, x, seq_start)
        return x
