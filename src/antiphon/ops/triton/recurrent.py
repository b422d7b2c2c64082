"""LSTM layers over padded rows, without packed sequences, which need the lengths on the host."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.backends.cudnn.rnn import get_cudnn_mode

from antiphon.ops.derived import Derived
from antiphon.ops.reference import recurrent as reference
from antiphon.ops.types import LSTMWeights

_PARAMETERS: Derived[list[Tensor]] = Derived()


def lstm(
    x: Tensor,
    lengths: Tensor,
    forward: LSTMWeights,
    backward: LSTMWeights | None = None,
    state: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    if state is not None:
        return reference.lstm(x, lengths, forward, backward, state)
    frames = torch.arange(x.shape[1], device=x.device)[None, :]
    lengths = lengths.to(x.device).long()[:, None]
    inside = (frames < lengths)[:, :, None]
    out = torch.where(inside, _run(x, forward), 0.0)
    if backward is None:
        return out
    # Reverse each row's frames up to its length; padding stays at the end.
    mirrored = torch.where(frames < lengths, lengths - 1 - frames, frames)[:, :, None]
    reverse = _run(x.gather(1, mirrored.expand_as(x)), backward)
    reverse = reverse.gather(1, mirrored.expand_as(reverse))
    return torch.cat([out, torch.where(inside, reverse, 0.0)], dim=-1)


def _run(x: Tensor, weights: LSTMWeights) -> Tensor:
    """Return one direction over all frames, x [B, T, I] → [B, T, hidden], from a state of zeros."""
    zeros = x.new_zeros(1, len(x), weights.hidden.shape[1])
    parameters = _PARAMETERS.get(weights.input, lambda: _compact(weights))
    return torch.lstm(x, [zeros, zeros], parameters, True, 1, 0.0, False, False, True)[0]


def _compact(weights: LSTMWeights) -> list[Tensor]:
    """Return the parameters of a direction; if cuDNN computes the layer, copies in the one buffer that cuDNN reads."""
    parameters = [weights.input, weights.hidden, weights.input_bias, weights.hidden_bias]
    if not (weights.input.is_cuda and torch.backends.cudnn.is_acceptable(weights.input)):
        return parameters
    copies = [parameter.clone() for parameter in parameters]
    inputs, hidden = weights.input.shape[1], weights.hidden.shape[1]
    with torch.no_grad():
        torch._cudnn_rnn_flatten_weight(copies, 4, inputs, get_cudnn_mode("LSTM"), hidden, 0, 1, True, False)
    return copies
