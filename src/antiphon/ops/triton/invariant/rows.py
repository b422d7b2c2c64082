"""Norms in batch-invariant mode: one row a program, whatever their number."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.rows import norm


def rms_norm(
    x: Tensor, weight: Tensor, eps: float, residual: Tensor | None = None, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    return norm(False, x, weight, None, eps, residual, dtype, together=1)


def layer_norm(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    eps: float,
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    return norm(True, x, weight, bias, eps, residual, dtype, together=1)
