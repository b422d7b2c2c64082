"""LSTM layers, frame by frame against float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import LSTMWeights
from support.kernels.conformance import TOLERANCE, checks, relative


def lstm_weights(inputs: int, hidden: int, generator: torch.Generator) -> LSTMWeights:
    shapes = ((4 * hidden, inputs), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,))
    return LSTMWeights(*(torch.randn(shape, generator=generator) * 0.3 for shape in shapes))


def naive_lstm(x: Tensor, w: LSTMWeights, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    out = []
    for frame in x.double():
        gates = w.input.double() @ frame + w.hidden.double() @ h + (w.input_bias + w.hidden_bias).double()
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        out.append(h)
    return torch.stack(out), h, c


@checks("lstm")
@pytest.mark.parametrize("hidden", [7, 24])
def test_lstm_ragged_bidirectional(hidden: int, generator: torch.Generator) -> None:
    forward, backward = lstm_weights(5, hidden, generator), lstm_weights(5, hidden, generator)
    x, lengths = torch.randn(3, 10, 5, generator=generator), torch.tensor([4, 10, 1])
    got = ops.lstm(x, lengths, forward, backward)
    zeros = torch.zeros(hidden, dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        ahead = naive_lstm(x[row, :length], forward, zeros, zeros)[0]
        behind = naive_lstm(x[row, :length].flip(0), backward, zeros, zeros)[0].flip(0)
        assert relative(got[row, :length], torch.cat([ahead, behind], -1)) < TOLERANCE
        assert not got[row, length:].any()


@pytest.mark.parametrize("hidden", [7, 24])
def test_lstm_carries_its_state(hidden: int, generator: torch.Generator) -> None:
    weights, x = lstm_weights(5, hidden, generator), torch.randn(2, 9, 5, generator=generator)
    state = (torch.randn(1, 2, hidden, generator=generator), torch.randn(1, 2, hidden, generator=generator))
    start = [(state[0][0, row].double(), state[1][0, row].double()) for row in range(2)]
    chunks = x.split((1, 5, 3), dim=1)
    parts = [ops.lstm(part, torch.full((2,), part.shape[1]), weights, state=state) for part in chunks]
    for row in range(2):
        expected, h, c = naive_lstm(x[row], weights, *start[row])
        assert relative(torch.cat(parts, 1)[row], expected) < TOLERANCE
        assert relative(state[0][0, row], h) < TOLERANCE
        assert relative(state[1][0, row], c) < TOLERANCE
