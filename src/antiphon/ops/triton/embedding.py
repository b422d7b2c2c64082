"""Embedding lookup, and gathering of rows of activations."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.reference import rows as reference
from antiphon.ops.triton.kernels.rows.embedding import gather_scaled
from antiphon.ops.triton.launch import card, ceil_power, row_warps
from antiphon.ops.triton.weights import form_of
from antiphon.weights.weight import Weight


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    """Return rows of the weight in fp32, times `scale`; ids below 0 are padding and give zeros."""
    table = form_of(weight, ids.device)
    if not isinstance(table, Tensor):
        return table.take(ids.contiguous(), scale)
    return _gather(ids, table, scale, torch.float32)


def gather_rows(x: Tensor, rows: Tensor) -> Tensor:
    if x.dim() != 2 or not x.is_contiguous() or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return reference.gather_rows(x, rows)
    return _gather(rows, x, 1.0, x.dtype)


def _gather(ids: Tensor, table: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    width = table.shape[1]
    out = torch.empty(len(ids), width, dtype=dtype, device=ids.device)
    if len(ids):
        early = card(ids.device).dependent_launch
        gather_scaled[(len(ids),)](
            ids.contiguous(), table, out, out, out, out, scale,
            WIDTH=width, BLOCK=ceil_power(width), SCALED=False, ROWS=1, PDL=early,
            num_warps=row_warps(width), launch_pdl=early,
        )  # fmt: skip
    return out
