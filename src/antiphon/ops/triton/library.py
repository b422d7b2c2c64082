"""Large products by PyTorch's library (cuBLAS)."""

from __future__ import annotations

import torch
from torch import Tensor


def multiply(x: Tensor, matrix: Tensor, out: Tensor) -> None:
    """out [T, N] = x [T, K] · matrixᵀ [N, K], summed in fp32; `out` may be fp32 where x is not."""
    if out.dtype is x.dtype:
        torch.mm(x, matrix.t(), out=out)
    elif x.is_cuda:
        torch.mm(x, matrix.t(), out_dtype=out.dtype, out=out)
    else:
        torch.mm(x.to(out.dtype), matrix.t().to(out.dtype), out=out)
