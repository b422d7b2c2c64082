"""Products with weights: one kernel for few rows; for many, cuBLAS and a kernel for the epilogue."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from antiphon.ops.adapters import AdapterTable
from antiphon.ops.triton.epilogue import epilogue_constants, finish
from antiphon.ops.triton.kernels.products.vector import vector_product
from antiphon.ops.triton.launch import card, vector_tile
from antiphon.ops.triton.library import product
from antiphon.ops.triton.quantised.prepare import PreparedWeight
from antiphon.ops.triton.quantised.workspace import workspace_of
from antiphon.ops.triton.weights import form_of, matrix_of
from antiphon.ops.types import Activation
from antiphon.weights.weight import Weight

#: Numbers of rows that the vector product takes.
VECTOR_ROWS = (1, 2, 4)


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    matrix = form_of(weight, x.device)
    dtype = dtype or (x.dtype if residual is None else residual.dtype)
    if not isinstance(matrix, Tensor):
        return _quantised(x, matrix, bias, activation, residual, dtype)
    if len(x) in VECTOR_ROWS:
        return _vector(x, matrix, bias, activation, residual, dtype)
    if bias is None and activation == "none":
        if residual is None:
            return product(x, matrix, dtype)
        if x.is_cuda and residual.dtype is dtype is torch.float32 and matrix.dtype is not torch.float32:
            return torch.addmm(residual, x.to(matrix.dtype), matrix.T, out_dtype=torch.float32)
    return finish(product(x, matrix, _inner_type(matrix, dtype)), bias, activation, residual, dtype)


def _quantised(
    x: Tensor, matrix: PreparedWeight, bias: Tensor | None, activation: Activation, residual: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    kept = None if residual is None else residual.contiguous()
    return matrix.product(x.contiguous(), workspace_of(x.device), bias, activation, kept, dtype)


def _inner_type(matrix: Tensor, dtype: torch.dtype) -> torch.dtype:
    """Return the type in which the library passes a product to the epilogue."""
    return torch.promote_types(matrix.dtype, dtype)


def _vector(
    x: Tensor, matrix: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, dtype: torch.dtype
) -> Tensor:
    gated = activation.endswith("_gate")
    rows, inputs = x.shape
    outputs = len(matrix) // 2 if gated else len(matrix)
    out = torch.empty(rows, outputs, dtype=dtype, device=x.device)
    tile = vector_tile(rows, inputs, outputs)
    early = card(x.device).dependent_launch
    vector_product[(-(-outputs // tile.columns),)](
        x.contiguous(), matrix, matrix, matrix if bias is None else bias,
        matrix if residual is None else residual.contiguous(), out, 0.0,
        ROWS=rows, K=inputs, N=outputs, BN=tile.columns, BK=tile.depth, NORM=False, LOOP=0, PDL=early,
        num_warps=tile.warps, launch_pdl=early, **epilogue_constants(activation, bias, residual),
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

    Every adapter multiplies every token, and results for other tokens are masked: the host need not know the slots.
    """
    if not adapters.layers:
        return linear(x, weight, bias, activation, residual, dtype)
    matrix = form_of(weight, x.device)
    dtype = dtype or (x.dtype if residual is None else residual.dtype)
    if not isinstance(matrix, Tensor):
        y = _quantised(x, matrix, None, "none", None, torch.float32)
    elif len(x) in VECTOR_ROWS:
        y = _vector(x, matrix, None, "none", None, torch.float32)
    else:
        y = product(x, matrix, _inner_type(matrix, dtype))
    add_adapters(y, x, adapters, slots, lambda x, matrix: x.float() @ matrix.float().T)
    return finish(y, bias, activation, residual, dtype)


def add_adapters(
    y: Tensor, x: Tensor, adapters: AdapterTable, slots: Tensor, multiply: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Add the output of each token's adapter to y; `multiply` computes x · matrixᵀ."""
    for slot, layer in adapters.layers.items():
        reduced = torch.where((slots == slot)[:, None], multiply(x, matrix_of(layer.down, x.device)), 0.0)
        for up in layer.ups:
            rank, width = up.rows.shape
            delta = multiply(reduced[:, up.offset : up.offset + rank], up.rows.to(x.device).T)
            y[:, up.first : up.first + width] += delta.to(y.dtype)
