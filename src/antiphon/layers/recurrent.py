"""Recurrent layers over padded frames."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon import ops
from antiphon.layers.module import Module
from antiphon.ops import LSTMWeights
from antiphon.weights.source import Source

#: Index in ONNX's gate order (input, output, forget, cell) of each gate in ours (input, forget, cell, output).
_GATES = (0, 2, 3, 1)


class BidirectionalLSTM(Module):
    """A bidirectional LSTM x [B, T, inputs] → [B, T, 2 * hidden], from weights in ONNX's layout."""

    def __init__(self, source: Source, name: str, inputs: int, hidden: int) -> None:
        rows = 4 * hidden
        input_ = _reordered(source.tensor(f"{name}.input", (2, rows, inputs)), hidden)
        hidden_ = _reordered(source.tensor(f"{name}.hidden", (2, rows, hidden)), hidden)
        bias = source.tensor(f"{name}.bias", (2, 2 * rows)).view(2, 2, rows)
        input_bias, hidden_bias = _reordered(bias[:, 0], hidden), _reordered(bias[:, 1], hidden)
        self.tensors = [input_, hidden_, input_bias, hidden_bias]
        self.forward, self.backward = (
            LSTMWeights(input_[way], hidden_[way], input_bias[way], hidden_bias[way]) for way in (0, 1)
        )

    def __call__(self, x: Tensor, lengths: Tensor) -> Tensor:
        return ops.lstm(x, lengths, self.forward, self.backward)


def _reordered(x: Tensor, hidden: int) -> Tensor:
    """Return [2, 4 * hidden, …] with its blocks of rows in our order of gates."""
    blocks = x.unflatten(1, (4, hidden))
    return torch.cat([blocks[:, gate] for gate in _GATES], dim=1).contiguous()
