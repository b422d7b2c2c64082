"""Norms, rotary embedding and scattered writes of 32-bit words. A row's result depends on that row alone."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.reference import rows as reference
from antiphon.ops.triton.kernels.attention.heads import prepare_heads
from antiphon.ops.triton.kernels.rows.norms import norm_rows
from antiphon.ops.triton.kernels.rows.store import scatter_words as scatter_pairs
from antiphon.ops.triton.launch import card, ceil_power, norm_tile, row_warps
from antiphon.ops.types import RotaryTable


def rms_norm(
    x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None, dtype: torch.dtype | None = None,
    together: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return layer_norm(x, weight, None, eps, residual, dtype, together, centred=False)


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
    together: int | None = None,
    centred: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the layer norm of x + residual, or the RMS norm if not `centred`, and the sum x + residual.

    A program computes `together` rows; None chooses by the number of rows.
    """
    shape, width = x.shape, x.shape[-1]
    if x.dim() > 3:
        x, residual = x.flatten(0, -2), None if residual is None else residual.expand(shape).flatten(0, -2)
    total = x.view(shape)
    beside, beside_strides = x, (0, 0)
    if residual is not None:
        beside, *beside_strides = _strides(residual.expand(x.shape))  # type: ignore[assignment]
        total = torch.empty(shape, dtype=torch.promote_types(x.dtype, residual.dtype), device=x.device)
    y = torch.empty(shape, dtype=dtype or total.dtype, device=x.device)
    x, *own = _strides(x)
    if not y.numel():
        return y, total
    early = card(x.device).dependent_launch
    rows = y.numel() // width
    together = together or norm_tile(rows, width)
    norm_rows[(-(-rows // together),)](
        x, beside, weight, weight if bias is None else bias, y, total,
        rows, *own, *beside_strides, x.shape[-2] if x.dim() == 3 else 1, eps,
        WIDTH=width, BLOCK=ceil_power(width), ROWS=together, CENTRED=centred, BIAS=bias is not None,
        RESIDUAL=residual is not None, PDL=early, num_warps=row_warps(together * width), launch_pdl=early,
    )  # fmt: skip
    return y, total


def _strides(x: Tensor) -> tuple[Tensor, int, int]:
    """Return x with contiguous rows, and the strides of its outer and inner dimension in elements; inner is 0 in 2D."""
    if x.dim() > 3 or x.stride(-1) != 1:
        x = x.contiguous()
    if x.dim() == 3:
        return x, x.stride(0), x.stride(1)
    return x, x.stride(0) if x.dim() == 2 else x.shape[-1], 0


def scatter_words(store: Tensor, changes: Tensor) -> None:
    if len(changes):
        scatter_pairs[(-(-len(changes) // 256),)](store, changes.contiguous(), len(changes), BLOCK=256)


def rotary(q: Tensor, k: Tensor, positions: Tensor, table: RotaryTable) -> tuple[Tensor, Tensor]:
    if positions.dim() == 2:  # each channel pair follows its own axis, which the kernel does not support
        return reference.rotary(q, k, positions, table)
    q, k = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k))
    tokens, heads, channels = q.shape
    kv_heads = k.shape[1]
    rotated = table.values.shape[1]
    q_out = torch.empty(tokens, heads, channels, dtype=q.dtype, device=q.device)
    k_out = torch.empty(tokens, kv_heads, channels, dtype=k.dtype, device=k.device)
    if tokens:
        prepare_heads[(tokens,)](
            q, k, k, q, k, table.values, positions, positions, q, q, q, q, q, q_out, k_out,
            *q.stride()[:2], *k.stride()[:2], *k.stride()[:2], 0, 0, 0, 0, 0.0, 0.0,
            H=heads, HK=kv_heads, D=channels, DB=ceil_power(channels), HB=ceil_power(heads), HKB=ceil_power(kv_heads),
            ROTATED=rotated, PAGE=1, Q_NORM=False, K_NORM=False, BALANCED=False, STORE=False,
            num_warps=row_warps(heads * channels // 2),
        )  # fmt: skip
    return q_out, k_out
