"""LSTM layers: one product for the inputs of all frames, then one thread for each direction of each row."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.derived import Derived
from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.product import linear
from antiphon.ops.reference import recurrent as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import LSTMWeights
from antiphon.weights.weight import Weight

#: Divisor of the number of hidden channels.
LANES = 8


@dataclass(frozen=True)
class _Prepared:
    """Weights of one direction as the extension reads them."""

    input: Weight
    bias: Tensor
    panels: Tensor  # [hidden / 8, hidden, 4 gates, 8]


_made: Derived[_Prepared] = Derived()


def _tensors(weights: LSTMWeights) -> tuple[Tensor, ...]:
    return (weights.input, weights.hidden, weights.input_bias, weights.hidden_bias)


def _prepared(weights: LSTMWeights) -> _Prepared:
    """Return the prepared weights of a direction, cached as long as its recurrent weight lives."""

    def make() -> _Prepared:
        gates = weights.hidden.detach().view(4, -1, LANES, weights.hidden.shape[1])
        panels = gates.permute(1, 3, 0, 2).contiguous()
        bias = (weights.input_bias + weights.hidden_bias).detach()
        return _Prepared(Weight.from_tensor(weights.input.detach()), bias, panels)

    return _made.get(weights.hidden, make, *(tensor._version for tensor in _tensors(weights)))


def _supports(x: Tensor, weights: LSTMWeights) -> bool:
    plain = all(tensor.dtype is torch.float32 and tensor.is_cpu for tensor in (x, *_tensors(weights)))
    # An inference tensor has no version counter: changes would not be detected.
    return plain and not any(t.is_inference() for t in _tensors(weights)) and weights.hidden.shape[1] % LANES == 0


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    directions = [forward] if backward is None else [forward, backward]
    if not available() or not all(_supports(x, weights) for weights in directions):
        return reference.lstm(x, lengths, forward, backward, state)
    rows, frames, _ = x.shape
    hidden = forward.hidden.shape[1]
    counts = lengths.tolist()
    if len(counts) != rows or not all(1 <= count <= frames for count in counts):
        raise ValueError(f"lengths {counts} do not fit {rows} rows of {frames} frames")
    out = torch.zeros(rows, frames, len(directions) * hidden)
    given = None if state is None else [part.to(torch.float32, copy=True).contiguous() for part in state]
    kept, sequences = [], []
    for way, weights in enumerate(directions):
        own = _prepared(weights)
        inputs = linear(x.reshape(rows * frames, -1), own.input, own.bias, threads=threads, variant=variant)
        kept.append(inputs)
        for row, length in enumerate(counts):
            h, c = (0, 0) if given is None else (part[way, row].data_ptr() for part in given)
            target = out[row, :, way * hidden :].data_ptr()
            gates = inputs[row * frames :].data_ptr()
            sequences.append((gates, length, target, way == 1, own.panels.data_ptr(), h, c))
    extension().recurrences(sequences, hidden, 4 * hidden, out.shape[2], threads or default_threads(), variant)
    if state is not None and given is not None:
        state[0].copy_(given[0])
        state[1].copy_(given[1])
    return out
