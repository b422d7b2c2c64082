"""Epilogue of a product that a library or another kernel computed: bias, activation, gate and residual."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernel_launch import Launch
from antiphon.ops.triton.kernels.products.activations import NUMBERS
from antiphon.ops.triton.kernels.products.epilogue import finish_product
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.types import Activation

#: Elements per program: 16 for each of 128 threads, so that no two threads load the same element.
_TILE_ELEMENTS = 2048


def epilogue_constants(activation: Activation, bias: object | None, residual: object | None) -> dict[str, int]:
    """Return the kernel constants that select the epilogue of a product."""
    return {
        "GATED": activation.endswith("_gate"), "ACTIVATION": NUMBERS[activation.removesuffix("_gate")],
        "BIAS": bias is not None, "RESIDUAL": residual is not None,
    }  # fmt: skip


def finish_launch(
    y: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, out: Tensor, rows: int,
    invariant: bool = False,
) -> Launch:  # fmt: skip
    """Return the launch of out = activation(y + bias) + residual for the first `rows` rows; `out` may be the residual.

    With `invariant`, the compiler does not fuse multiplications with additions, as in the other kernels of
    batch-invariant mode.
    """
    columns = out.shape[1]
    block = min(ceil_power(columns), 1024)
    together = _TILE_ELEMENTS // block
    return Launch(
        "finish", finish_product, (-(-rows // together), -(-columns // block)),
        (y, y if bias is None else bias, y if residual is None else residual, out, rows),
        {"N": columns, "ROWS": together, "BLOCK": block, **epilogue_constants(activation, bias, residual),
         **({"enable_fp_fusion": False} if invariant else {})},
    )  # fmt: skip


def finish(
    y: Tensor,
    bias: Tensor | None,
    activation: Activation,
    residual: Tensor | None,
    into: Tensor | torch.dtype,
    invariant: bool = False,
) -> Tensor:
    """Return activation(y + bias) + residual, in the tensor `into` or in a new tensor of the type `into`."""
    width = y.shape[1] // 2 if activation.endswith("_gate") else y.shape[1]
    out = into if isinstance(into, Tensor) else torch.empty(len(y), width, dtype=into, device=y.device)
    if out.numel():
        kept = None if residual is None else residual.contiguous()
        finish_launch(y, bias, activation, kept, out, len(out), invariant)()
    return out
