"""Large products by PyTorch's library (cuBLAS)."""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(x: Tensor, matrix: Tensor, out: Tensor) -> None:
    """Compute out [T, N] = x [T, K] · matrixᵀ [N, K], summed in fp32; `out` may be fp32 where x is not."""
    if not x.is_cuda:
        out.copy_(x.float() @ matrix.float().t())
    elif out.dtype is x.dtype:
        torch.mm(x, matrix.t(), out=out)
    else:
        torch.mm(x, matrix.t(), out_dtype=out.dtype, out=out)


def product(x: Tensor, matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x · matrixᵀ in `dtype`; x is rounded to the matrix's type first."""
    out = torch.empty(len(x), len(matrix), dtype=torch.promote_types(matrix.dtype, dtype), device=x.device)
    multiply(x.to(matrix.dtype), matrix, out)
    return out.to(dtype)
