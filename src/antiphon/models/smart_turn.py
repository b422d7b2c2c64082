"""Smart Turn v3: end-of-turn detection by Whisper tiny's encoder over the last 8 s, attention pooling and an MLP.

Its file is an ONNX graph in int8. The weights are decoded at load; the scales of its activations are not used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from antiphon import ops
from antiphon.audio.mel import HOP, log_mel, normalize
from antiphon.audio.samples import Floats
from antiphon.layers.linear import Linear
from antiphon.layers.module import Module
from antiphon.layers.norm import LayerNorm
from antiphon.models.base.detector import DetectorModel
from antiphon.models.base.model import Task
from antiphon.models.base.parts import WeightRules
from antiphon.models.whisper_encoder import NORM_EPS, EncoderSizes, WhisperEncoder
from antiphon.weights.checkpoint import Checkpoint
from antiphon.weights.source import Source
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight

HEAD_DIM = 64
#: Addend of the waveform's variance, as in Whisper's feature extractor.
VARIANCE_EPS = 1e-7

_KEYS = re.compile(r"encoder\.layers\.(\d+)\.self_attn\.k_proj\.weight")
_LAYER_PRODUCTS = 6  # query, key, value, output, and two of the MLP


def _file_name(name: str) -> str:
    """Return the file's name of a tensor; keys have no bias, so the exporter named their weights by graph node."""
    keys = _KEYS.fullmatch(name)
    return f"inner.{name}" if keys is None else f"node_linear_{_LAYER_PRODUCTS * int(keys[1]) + 1}.weight"


class AttentionPooling(Module):
    """The mean of a sequence's states, weighted by the softmax of out(tanh(hidden(state))).

    tanh(x) is 2 sigmoid(2x) - 1. Its factors are folded into the weights; addends equal for all states do not change
    the softmax and are dropped.
    """

    def __init__(self, source: Source, hidden: int, inner: int) -> None:
        self.hidden = Weight.from_tensor(2 * source.tensor("0.weight", (inner, hidden)))
        self.hidden_bias = 2 * source.tensor("0.bias", (inner,))
        self.out = Weight.from_tensor(2 * source.tensor("2.weight", (1, inner)))
        source.tensor("2.bias", (1,))

    def __call__(self, x: Tensor, seq_start: Tensor) -> Tensor:
        inner = ops.activate(ops.linear(x, self.hidden, self.hidden_bias), "sigmoid")
        return ops.softmax_pool(x, ops.linear(inner, self.out), seq_start)


class Classifier(Module):
    """A network from a pooled state to the probability that the turn is complete."""

    def __init__(self, source: Source, sizes: tuple[int, int, int]) -> None:
        hidden, first, second = sizes
        self.first = Linear(source, "0", hidden, first, bias=True)
        self.norm = LayerNorm(source, "1", first, NORM_EPS)
        self.second = Linear(source, "4", first, second, bias=True, activation="gelu")
        self.out = Linear(source, "6", second, 1, bias=True)

    def __call__(self, x: Tensor) -> Tensor:
        x = self.second(ops.activate(self.norm(self.first(x)), "gelu"))
        return ops.activate(self.out(x), "sigmoid")


class SmartTurn(DetectorModel):
    """A detector from 16 kHz samples of a person's turn so far to the probability that the turn is complete."""

    architectures = ("smart-turn",)
    task = Task.END_OF_TURN
    step_size = 8

    def __init__(self, sizes: EncoderSizes, source: Source) -> None:
        self.num_mels = sizes.num_mels
        self.num_states = sizes.positions
        #: Samples that the model reads: the last ones of longer sound.
        self.num_samples = 2 * sizes.positions * HOP
        layers = ("pool_attention.0", "classifier.0", "classifier.4")
        inner, first, second = (source.checkpoint.stored(f"inner.{name}.bias").shape[0] for name in layers)
        self.encoder = WhisperEncoder(source.at("encoder"), sizes)
        self.pool = AttentionPooling(source.at("pool_attention"), sizes.hidden, inner)
        self.classifier = Classifier(source.at("classifier"), (sizes.hidden, first, second))

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint) -> Self:
        encoder = "inner.encoder."
        positions, hidden = checkpoint.stored(f"{encoder}embed_positions.weight").shape
        sizes = EncoderSizes(
            num_mels=checkpoint.stored(f"{encoder}conv1.weight").shape[1],
            hidden=hidden,
            layers=sum(name.endswith(".fc1.bias") for name in checkpoint.tensors()),
            heads=hidden // HEAD_DIM,
            intermediate=checkpoint.stored(f"{encoder}layers.0.fc1.bias").shape[0],
            positions=positions,
        )
        return cls(sizes, Source(checkpoint, _file_name))

    def weight_rules(self) -> WeightRules:
        return WeightRules(can_quantize=False, fast_type=TensorType.I8)

    def features(self, samples: Floats) -> Floats:
        """Return frames [800, mels] of the last 8 s, with silence in front if there are fewer samples.

        They equal those of Whisper's feature extractor with `do_normalize`.
        """
        heard = samples[-self.num_samples :].astype(np.float32, copy=False)
        window = np.pad(heard, (self.num_samples - len(heard), 0))
        window = (window - window.mean()) / np.sqrt(window.var() + np.float32(VARIANCE_EPS))
        return normalize(log_mel(window, self.num_mels))

    def forward(self, features: Tensor, seq_start: Tensor) -> Tensor:
        """Return probabilities [B, 1] for frames [B, 2 * states, mels]; seq_start [B + 1] counts states."""
        return self.classifier(self.pool(self.encoder(features, seq_start), seq_start))

    @torch.inference_mode()
    def detect(self, inputs: Sequence[Floats]) -> list[float]:
        """Return, per 16 kHz sound of any length, the probability that its speaker has finished."""
        features = torch.from_numpy(np.stack([self.features(samples) for samples in inputs]))
        seq_start = torch.arange(len(inputs) + 1, dtype=torch.int32) * self.num_states
        found: list[float] = self.forward(features, seq_start)[:, 0].tolist()
        return found
