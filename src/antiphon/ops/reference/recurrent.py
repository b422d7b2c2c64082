"""LSTM layers."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.types import LSTMWeights


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Compute one LSTM layer over x [B, T, I] → [B, T, hidden], or [B, T, 2 * hidden] with a backward direction.

    Row b has lengths[b] >= 1 frames; results of frames beyond are 0, and these frames do not change the state.
    `state` (h, c), each [directions, B, hidden], is read and then overwritten.
    """
    directions = [forward] if backward is None else [forward, backward]
    hidden = forward.hidden.shape[1]
    parameters = [p for d in directions for p in (d.input, d.hidden, d.input_bias, d.hidden_bias)]
    if state is None:
        zeros = x.new_zeros(len(directions), len(x), hidden)
        state = (zeros, zeros.clone())
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths.cpu().long(), batch_first=True, enforce_sorted=False)
    order = packed.sorted_indices
    initial = [s if order is None else s.index_select(1, order) for s in state]
    data, h, c = torch.lstm(
        packed.data, packed.batch_sizes, initial, parameters, True, 1, 0.0, False, backward is not None
    )
    if packed.unsorted_indices is not None:
        h, c = h.index_select(1, packed.unsorted_indices), c.index_select(1, packed.unsorted_indices)
    state[0].copy_(h)
    state[1].copy_(c)
    repacked = torch.nn.utils.rnn.PackedSequence(data, packed.batch_sizes, order, packed.unsorted_indices)
    return torch.nn.utils.rnn.pad_packed_sequence(repacked, batch_first=True, total_length=x.shape[1])[0]
