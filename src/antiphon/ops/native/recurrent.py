"""LSTM layers: the inputs' part in one product, then the steps, each direction of each row on a thread of its own."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from antiphon.ops import reference
from antiphon.ops.native.extension import available, default_threads, extension
from antiphon.ops.types import LSTMWeights

LANES = 8
_made: Any = WeakTensorKeyDictionary()


def panels(weight: Tensor) -> Tensor:
    """Hidden weights [4 * hidden, hidden] as the extension reads them, made once: [hidden / 8, hidden, 4, 8]."""
    found: Tensor | None = _made.get(weight)
    if found is None:
        gates = weight.detach().view(4, -1, LANES, weight.shape[1])
        found = _made[weight] = gates.permute(1, 3, 0, 2).contiguous()
    return found


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    hidden = forward.hidden.shape[1]
    plain = available() and x.is_cpu and x.dtype is torch.float32 and state is None
    if not plain or hidden % LANES:
        return reference.lstm(x, lengths, forward, backward, state)
    directions = [forward] if backward is None else [forward, backward]
    out = torch.zeros(*x.shape[:2], hidden * len(directions))
    sequences = []
    keep = []
    for way, weights in enumerate(directions):
        kept = panels(weights.hidden)
        for row, length in enumerate(lengths.tolist()):
            # By the row, so that the product's rounding does not depend on the others'.
            inputs = F.linear(x[row, :length], weights.input, weights.input_bias + weights.hidden_bias)
            keep.append(inputs)
            place = out[row, :, way * hidden :].data_ptr()
            sequences.append((inputs.data_ptr(), length, place, way == 1, kept.data_ptr()))
    extension().recurrences(sequences, hidden, 4 * hidden, out.shape[2], threads or default_threads(), variant)
    return out
