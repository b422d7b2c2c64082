"""Norms, rotary embedding and pooling. A row's result depends on that row alone."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.native.extension import extension
from antiphon.ops.reference import rows as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import RotaryTable


def rms_norm(
    x: Tensor,
    weight: Tensor,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> tuple[Tensor, Tensor]:
    found = None if dtype else _norm(False, x, weight, None, eps, residual, threads, variant)
    return reference.rms_norm(x, weight, eps, residual, dtype) if found is None else found


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> tuple[Tensor, Tensor]:
    found = None if dtype else _norm(True, x, weight, bias, eps, residual, threads, variant)
    return reference.layer_norm(x, weight, bias, eps, residual, dtype) if found is None else found


def rotary(
    q: Tensor, k: Tensor, positions: Tensor, table: RotaryTable, threads: int | None = None, variant: int = 0
) -> tuple[Tensor, Tensor]:
    values = table.values
    (q_token, q_head, q_channel), (k_token, k_head, k_channel) = q.stride(), k.stride()
    single = q.dtype is k.dtype is values.dtype is torch.float32 and positions.dim() == 1
    if not (single and q_channel == k_channel == 1 and values.is_contiguous()):
        return reference.rotary(q, k, positions, table)
    if positions.dtype is not torch.int32 or not positions.is_contiguous():
        positions = positions.to(torch.int32).contiguous()
    (tokens, heads, head_dim), (k_tokens, kv_heads, k_dim) = q.shape, k.shape
    if not tokens == k_tokens == len(positions) or head_dim != k_dim or values.shape[1] > head_dim:
        raise ValueError(f"q is {tuple(q.shape)}, k {tuple(k.shape)}, with {len(positions)} positions")
    q_out, k_out = torch.empty(tokens, heads, head_dim), torch.empty(tokens, kv_heads, head_dim)
    extension().rotary(
        q.data_ptr(), q_token, q_head, heads, k.data_ptr(), k_token, k_head, kv_heads, tokens, head_dim,
        positions.data_ptr(), values.data_ptr(), *values.shape, q_out.data_ptr(), k_out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return q_out, k_out


def segment_mean(x: Tensor, seq_start: Tensor, threads: int | None = None, variant: int = 0) -> Tensor:
    if x.dtype is not torch.float32 or x.dim() != 2 or x.stride(1) != 1 or not x.is_cpu:
        return reference.segment_mean(x, seq_start)
    starts = seq_start.to(torch.int32).contiguous()
    out = torch.empty(len(starts) - 1, x.shape[1])
    extension().segment_means(
        x.data_ptr(), x.stride(0), x.shape[1], starts.data_ptr(), len(out), out.data_ptr(),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out


def l2_normalize(x: Tensor, threads: int | None = None, variant: int = 0) -> Tensor:
    if x.dtype is not torch.float32 or x.dim() != 2 or x.stride(1) != 1 or not x.is_cpu:
        return reference.l2_normalize(x)
    out = torch.empty(*x.shape)
    extension().unit_rows(
        x.data_ptr(), x.stride(0), *x.shape, out.data_ptr(), threads or default_threads(), variant
    )  # fmt: skip
    return out


def _strides(x: Tensor) -> tuple[int, int] | None:
    """Return the strides of the first and the middle dimension (0 without one); None if the extension cannot read x."""
    strides = x.stride()
    if x.dtype is not torch.float32 or not 2 <= len(strides) <= 3 or strides[-1] != 1:
        return None
    return strides[0], strides[1] if len(strides) == 3 else 0


def _norm(
    centred: bool,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
    residual: Tensor | None,
    threads: int | None,
    variant: int,
) -> tuple[Tensor, Tensor] | None:
    """Compute either norm. Return None if the extension cannot read an argument."""
    strides = _strides(x)
    residual_strides = (0, 0) if residual is None else _strides(residual)
    shape = x.shape
    if strides is None or residual_strides is None or not (residual is None or residual.shape == shape):
        return None
    inner, width = shape[-2] if len(shape) == 3 else 1, shape[-1]
    if not (_is_vector(weight, width) and _is_vector(bias, width)):
        return None
    y = torch.empty(*shape)
    total = x if residual is None else torch.empty(*shape)
    extension().norm(
        centred, x.data_ptr(), *strides, 0 if residual is None else residual.data_ptr(), *residual_strides,
        shape[0] * inner, inner, width, weight.data_ptr(), 0 if bias is None else bias.data_ptr(), eps,
        y.data_ptr(), total.data_ptr(), threads or default_threads(), variant,
    )  # fmt: skip
    return y, total


def _is_vector(x: Tensor | None, width: int) -> bool:
    return x is None or (x.dtype is torch.float32 and x.numel() == width and x.is_contiguous())
