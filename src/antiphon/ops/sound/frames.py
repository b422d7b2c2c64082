"""Frames of several utterances, padded to one length: masks, norms, repetition.

Frames of B utterances are [B, T, C]; `lengths` [B] counts the frames of each. What lies beyond a length is ignored in
the input and, where a result is masked, zero in the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.types import CountScale


def mask_frames(x: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, C] with the frames beyond each row's length set to zero."""
    beyond = _beyond(lengths, x.shape[1])
    return x if beyond is None else x.masked_fill(beyond.to(x.device)[..., None], 0.0)


def leaky_relu(x: Tensor, slope: float, lengths: Tensor) -> Tensor:
    """x [B, T, C] where it is positive, slope * x elsewhere; masked."""
    return mask_frames(F.leaky_relu(x, slope), lengths)


def modulate(x: Tensor, scale: Tensor, shift: Tensor, lengths: Tensor) -> Tensor:
    """x [B, T, C] * scale [B, C] + shift [B, C]; masked."""
    return mask_frames(torch.addcmul(shift[:, None, :], x, scale[:, None, :]), lengths)


def adaptive_norm(
    x: Tensor,
    lengths: Tensor,
    scale: Tensor,
    shift: Tensor,
    eps: float,
    slope: float | None = None,
    alpha: Tensor | None = None,
    half: bool = False,
) -> Tensor:
    """Each channel of x [B, T, C] normalised to mean 0, variance 1 over its row's frames, then * scale + shift [B, C].

    Then, where given, a leaky ReLU with `slope`, or alpha * y + sin²(alpha * y) with alpha [C], which is alpha times
    the "snake" activation; masked. With `half` the result may be in 16 bits, as `half_conv1d` takes it.
    """
    masked = mask_frames(x, lengths)
    if masked is x:
        variance, mean = torch.var_mean(x, dim=1, correction=0)
    else:
        count = lengths.to(x.dtype)[:, None]
        mean = masked.sum(1) / count
        centred = mask_frames(x - mean[:, None, :], lengths)
        variance = centred.square().sum(1) / count
    y = (x - mean[:, None, :]) * (scale * torch.rsqrt(variance + eps))[:, None, :] + shift[:, None, :]
    if slope is not None:
        y = F.leaky_relu(y, slope)
    if alpha is not None:
        y = y * alpha
        y = y + y.sin().square()
    return mask_frames(y, lengths)


def concatenate(parts: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated in their last dimension."""
    return torch.cat(list(parts), dim=-1)


def repeat_frames(x: Tensor, times: int) -> Tensor:
    """Every frame of x [B, T, C] `times` times → [B, T * times, C]."""
    return x.repeat_interleave(times, dim=1)


def prepend_mirrored(x: Tensor) -> Tensor:
    """x [B, T, C] with a copy of its second frame prepended → [B, T + 1, C]."""
    return torch.cat([x[:, 1:2], x], dim=1)


def pad_rows(x: Tensor, seq_start: Tensor) -> Tensor:
    """Sequences seq_start [B + 1] of x [T, C], laid end to end, padded with zeros to the longest → [B, longest, C]."""
    starts = seq_start.tolist()
    longest = max(end - start for start, end in pairwise(starts))
    out = x.new_zeros(len(starts) - 1, longest, x.shape[-1])
    for row, (start, end) in enumerate(pairwise(starts)):
        out[row, : end - start] = x[start:end]
    return out


def pack_rows(x: Tensor, lengths: Tensor) -> Tensor:
    """The frames of x [B, T, C] within the lengths, end to end → [sum(lengths), C]."""
    if len(x) == 1:
        return x[0, : int(lengths[0])]
    return torch.cat([row[:length] for row, length in zip(x, lengths.tolist(), strict=True)])


def expand_frames(x: Tensor, counts: Tensor) -> Tensor:
    """Frame t of row b of x [B, T, C] counts[b, t] times → [B, longest sum, C]; masked."""
    rows = [frames.repeat_interleave(count, dim=0) for frames, count in zip(x, counts, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def frame_counts(logits: Tensor, lengths: Tensor, speed: Tensor, scale: CountScale) -> Tensor:
    """round(frames of logits [B, T, D] on that scale / speed [B]), at least 1 → int64 [B, T]; 0 beyond the lengths."""
    frames = logits.sigmoid().sum(-1) if scale == "sigmoid" else logits[..., 0].exp() - 1.0
    counts = (frames / speed[:, None]).round().clamp(min=1).long()
    beyond = _beyond(lengths, counts.shape[1])
    return counts if beyond is None else counts.masked_fill(beyond, 0)


def _beyond(lengths: Tensor, frames: int) -> Tensor | None:
    """[B, T], True past the end of a row; None where every row is full."""
    if min(lengths.tolist()) >= frames:
        return None
    return torch.arange(frames, device=lengths.device)[None, :] >= lengths[:, None]
