"""Frames of several utterances, padded to one length: masks, norms, repetition.

Frames of B utterances are [B, T, C]; `lengths` [B] counts the frames of each. Frames beyond a row's length are ignored
in the input; a result that is "masked" has zeros there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.types import CountScale


def mask_frames(x: Tensor, lengths: Tensor) -> Tensor:
    """Set the frames of x [B, T, C] beyond each row's length to zero."""
    beyond = _beyond(lengths, x.shape[1])
    return x if beyond is None else x.masked_fill(beyond[..., None], 0.0)


def leaky_relu(x: Tensor, slope: float, lengths: Tensor) -> Tensor:
    """Compute a leaky ReLU of x [B, T, C]: x where positive, slope * x elsewhere; masked."""
    return mask_frames(F.leaky_relu(x, slope), lengths)


def modulate(x: Tensor, scale: Tensor, shift: Tensor, lengths: Tensor) -> Tensor:
    """Compute x [B, T, C] * scale [B, C] + shift [B, C]; masked."""
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
    """Normalise each channel of x [B, T, C] to mean 0, variance 1 over its row's frames, then * scale + shift [B, C].

    Then apply, if given, a leaky ReLU with `slope`, or alpha * y + sin²(alpha * y) with alpha [C], which is alpha times
    the "snake" activation; masked. With `half` the result may have 16 bits, as an input of `half_conv1d`.
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
    """Concatenate tensors in their last dimension."""
    return torch.cat(list(parts), dim=-1)


def repeat_frames(x: Tensor, times: int) -> Tensor:
    """Repeat every frame of x [B, T, C] `times` times → [B, T * times, C]."""
    return x.repeat_interleave(times, dim=1)


def prepend_mirrored(x: Tensor) -> Tensor:
    """Prepend a copy of the second frame of x [B, T, C] → [B, T + 1, C]."""
    return torch.cat([x[:, 1:2], x], dim=1)


def pad_rows(x: Tensor, seq_start: Tensor, longest: int | None = None) -> Tensor:
    """Pad the sequences seq_start [B + 1] of x [T, C] with zeros to the longest → [B, longest, C].

    Without `longest`, its value is read from `seq_start`, which waits for the device.
    """
    starts = seq_start.long()
    lengths = starts.diff()
    frames = torch.arange(int(lengths.max()) if longest is None else longest, device=x.device)
    rows = x[(starts[:-1, None] + frames).clamp(max=len(x) - 1)]
    return rows.masked_fill((frames >= lengths[:, None])[..., None], 0.0)


def pack_rows(x: Tensor, lengths: Tensor, total: int | None = None) -> Tensor:
    """Lay the frames of x [B, T, C] within the lengths end to end → [sum(lengths), C].

    Without `total`, the sum is read from `lengths`, which waits for the device.
    """
    ends = lengths.long().cumsum(0)
    frames = torch.arange(int(ends[-1]) if total is None else total, device=x.device)
    row = torch.searchsorted(ends, frames, right=True)
    return x[row, frames - (ends - lengths)[row]]


def expand_frames(x: Tensor, counts: Tensor, longest: int | None = None) -> Tensor:
    """Repeat frame t of row b of x [B, T, C] counts[b, t] times → [B, longest, C]; masked.

    Without `longest`, the largest sum of a row's counts, its value is read from `counts`, which waits for the device.
    """
    ends = counts.cumsum(1)
    size = int(ends[:, -1].max()) if longest is None else longest
    frames = torch.arange(size, device=x.device).expand(len(x), size).contiguous()
    index = torch.searchsorted(ends, frames, right=True).clamp(max=x.shape[1] - 1)
    rows = x.gather(1, index[..., None].expand(-1, -1, x.shape[2]))
    return rows.masked_fill((frames >= ends[:, -1:])[..., None], 0.0)


def frame_counts(logits: Tensor, lengths: Tensor, speed: Tensor, scale: CountScale) -> Tensor:
    """Decode the number of frames of each id, at least 1, from logits [B, T, D] on `scale` → int64 [B, T]; masked.

    The number is round(frames / speed [B]). Above speed 1, where ids have few frames, the end of each id is rounded
    instead, so that a row has 1 / speed of its frames at speed 1, as far as one frame per id allows.
    """
    frames = logits.sigmoid().sum(-1) if scale == "sigmoid" else logits[..., 0].exp() - 1.0
    counts = (frames / speed[:, None]).round().clamp(min=1).long()
    ends = (frames.round().clamp(min=1).cumsum(1) / speed[:, None]).round().long()
    steps = torch.arange(1, counts.shape[1] + 1, device=counts.device)
    ends = (ends - steps).clamp(min=0).cummax(1).values + steps  # at least one frame per id, taken from later ids
    fast = ends.diff(dim=1, prepend=torch.zeros_like(ends[:, :1]))
    counts = torch.where((speed > 1)[:, None], fast, counts)
    beyond = _beyond(lengths, counts.shape[1])
    return counts if beyond is None else counts.masked_fill(beyond, 0)


def _beyond(lengths: Tensor, frames: int) -> Tensor | None:
    """Return a mask [B, T] of the frames past the end of a row; None if the host knows that every row is full."""
    if lengths.is_cpu and min(lengths.tolist()) >= frames:
        return None
    return torch.arange(frames, device=lengths.device)[None, :] >= lengths[:, None]
