"""The end of a product that another kernel, or a library, has computed."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.products.epilogue import finish_product
from antiphon.ops.types import Activation

_FINISHED = 1024  # elements of a program


def finish(
    y: Tensor,
    bias: Tensor | None,
    activation: Activation,
    residual: Tensor | None,
    into: Tensor | torch.dtype,
    invariant: bool = False,
) -> Tensor:
    """activation(y + bias) + residual, in that order, in this tensor or in a new one of this type.

    `invariant`: multiplications and additions are not fused, as in the other kernels of batch-invariant mode.
    """
    gated = activation.endswith("_gate")
    width = y.shape[1] // 2 if gated else y.shape[1]
    out = into if isinstance(into, Tensor) else torch.empty(len(y), width, dtype=into, device=y.device)
    if out.numel():
        finish_product[(-(-out.numel() // _FINISHED),)](
            y, y if bias is None else bias, y if residual is None else residual.contiguous(), out, out.numel(),
            N=width, BLOCK=_FINISHED, GATED=gated, ACTIVATION=NUMBERS[activation.removesuffix("_gate")],
            BIAS=bias is not None, RESIDUAL=residual is not None, **({"enable_fp_fusion": False} if invariant else {}),
        )  # fmt: skip
    return out
