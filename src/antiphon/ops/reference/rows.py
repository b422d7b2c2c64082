"""Operations on rows: norms, rotary embedding, sums, pooling, gathering and scattering."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from antiphon.ops.types import RotaryTable


def rms_norm(
    x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """Compute (norm(x + residual) * weight, x + residual) over the last dimension, in fp32.

    The norm has `dtype` if given, else the type of the sum.
    """
    if residual is not None:
        x = x + residual
    wide = x.float()
    y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (y * weight).to(dtype or x.dtype), x


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute (norm(x + residual) * weight + bias, x + residual) over the last dimension, in fp32.

    The norm has `dtype` if given, else the type of the sum.
    """
    if residual is not None:
        x = x + residual
    y = F.layer_norm(x.float(), (x.shape[-1],), weight, bias, eps)
    return y.to(dtype or x.dtype), x


def rotary(q: Tensor, k: Tensor, positions: Tensor, table: RotaryTable) -> tuple[Tensor, Tensor]:
    """Rotate q [T, heads, D] and k [T, kv_heads, D] by their positions [T] or [A, T], in the half-split layout."""
    rows = table.values[positions.long()]  # [T, rotated] or [A, T, rotated]
    half = rows.shape[-1] // 2
    cos, sin = rows[..., :half], rows[..., half:]
    if positions.dim() == 2:
        assert table.axis is not None
        channel = torch.arange(half, device=rows.device)
        cos, sin = cos[table.axis, :, channel].T, sin[table.axis, :, channel].T
    cos, sin = cos[:, None, :], sin[:, None, :]  # [T, 1, rotated / 2]

    def rotate(x: Tensor) -> Tensor:
        first, second, rest = x[..., :half].float(), x[..., half : 2 * half].float(), x[..., 2 * half :]
        rotated = (first * cos - second * sin, second * cos + first * sin)
        return torch.cat([part.to(x.dtype) for part in rotated] + [rest], dim=-1)

    return rotate(q), rotate(k)


def add(x: Tensor, y: Tensor, scale: float = 1.0) -> Tensor:
    """Compute (x + y) * scale, with broadcasting."""
    return x + y if scale == 1.0 else (x + y).mul_(scale)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return x[rows] for x [T, H] and rows [L] → [L, H]."""
    return x[rows.long()]


def scatter_words(store: Tensor, changes: Tensor) -> None:
    """Set store[changes[i, 0]] = changes[i, 1] for int32 pairs [N, 2]; indices count words of `store`, all distinct."""
    store.view(-1)[changes[:, 0].long()] = changes[:, 1]


def segment_mean(x: Tensor, seq_start: Tensor) -> Tensor:
    """Average x [T, H] over each sequence of seq_start [R + 1] → fp32 [R, H]. No sequence may be empty."""
    starts = seq_start.tolist()
    return torch.stack([x[start:end].float().mean(0) for start, end in pairwise(starts)])


def softmax_pool(x: Tensor, scores: Tensor, seq_start: Tensor) -> Tensor:
    """Average x [T, H] over each sequence of seq_start [R + 1], weighted by softmax(scores [T, 1]) → fp32 [R, H].

    No sequence may be empty.
    """
    starts = seq_start.tolist()
    return torch.cat([scores[a:b].float().softmax(0).t() @ x[a:b].float() for a, b in pairwise(starts)])


def l2_normalize(x: Tensor) -> Tensor:
    """Scale the rows of x [R, H] to length 1, in fp32."""
    return F.normalize(x.float(), dim=-1)
