"""Products of batch-invariant mode. Quantised weights are expanded to the type of the activations first."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.adapters import AdapterTable
from antiphon.ops.triton.epilogue import epilogue_constants, finish
from antiphon.ops.triton.invariant.tiles import DEPTH, WIDE_DEPTH, product_tile
from antiphon.ops.triton.kernels.products.invariant import invariant_product
from antiphon.ops.triton.launch import card
from antiphon.ops.triton.product import add_adapters
from antiphon.ops.triton.quantised.matrix import rounded
from antiphon.ops.triton.quantised.workspace import workspace_of
from antiphon.ops.triton.weights import form_of
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    dtype = dtype or (x.dtype if residual is None else residual.dtype)
    return _product(x, _matrix(weight, x), bias, activation, residual, dtype)


def _matrix(weight: Weight, x: Tensor) -> Tensor:
    """Return the weight as floats; a quantised weight is expanded into a buffer that the next call overwrites."""
    matrix = form_of(weight, x.device)
    return matrix if isinstance(matrix, Tensor) else matrix.expanded(workspace_of(x.device), rounded(x[:0]).dtype)


def _product(
    x: Tensor, matrix: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Return activation(x · matrixᵀ + bias) + residual; x is rounded to the matrix's type."""
    gated = activation.endswith("_gate")
    (rows, inputs), outputs = x.shape, len(matrix) // 2 if gated else len(matrix)
    out = torch.empty(rows, outputs, dtype=dtype, device=x.device)
    if not out.numel():
        return out
    tile = product_tile(matrix.dtype, rows, outputs, gated, card(x.device).multiprocessors)
    invariant_product[(-(-rows // tile.rows) * -(-outputs // tile.columns),)](
        x.contiguous(), matrix, x if bias is None else bias, x if residual is None else residual.contiguous(), out,
        rows, K=inputs, N=outputs, BM=tile.rows, BN=tile.columns,
        BK=WIDE_DEPTH if matrix.dtype is torch.float32 else DEPTH, num_warps=tile.warps, num_stages=tile.stages,
        enable_fp_fusion=False, **epilogue_constants(activation, bias, residual),
    )  # fmt: skip
    return out


def adapted_linear(
    x: Tensor,
    weight: Weight,
    adapters: AdapterTable,
    slots: Tensor,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Compute `linear` with the adapter of each token; `slots` are the indices of the adapters, -1 for none.

    Every adapter multiplies every token, and results for other tokens are masked.
    """
    if not adapters.layers:
        return linear(x, weight, bias, activation, residual, dtype)
    dtype = dtype or (x.dtype if residual is None else residual.dtype)
    y = _plain(x, _matrix(weight, x))
    add_adapters(y, x, adapters, slots, _plain)
    return finish(y, bias, activation, residual, dtype, invariant=True)


def _plain(x: Tensor, matrix: Tensor) -> Tensor:
    return _product(x, matrix.contiguous(), None, "none", None, torch.float32)
