"""Products with weights, and their rows."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.adapters import AdapterTable
from antiphon.ops.reference.activation import activate
from antiphon.ops.reference.weights import DENSE_PACK, dense
from antiphon.ops.types import Activation
from antiphon.weights.dequantize.dequantize import dequantize
from antiphon.weights.weight import Weight


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    """Rows of the weight for ids [T], times `scale` → fp32 [T, H]. Ids must lie within the weight's rows."""
    packed = weight.packed.get(DENSE_PACK)
    if packed is not None:
        return packed[ids.long()].float() * scale
    out = torch.empty(len(ids), weight.columns, device=ids.device)
    start = 0
    for part in weight.parts:
        mine = (ids >= start) & (ids < start + part.rows)
        rows = part.data[(ids[mine] - start).long()]
        out[mine] = dequantize(rows, part.type).view(-1, weight.columns)
        start += part.rows
    return out * scale if scale != 1.0 else out


def linear_type(x: Tensor, residual: Tensor | None, dtype: torch.dtype | None) -> torch.dtype:
    """The type of a product's result: `dtype`, else the residual's, else that of x."""
    if dtype is not None:
        return dtype
    return x.dtype if residual is None else residual.dtype


def finish_linear(
    y: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """The epilogue of a product: bias, activation, residual, in that order, in fp32, as `dtype`."""
    y = y.float()
    if bias is not None:
        y = y + bias
    y = activate(y, activation)
    return (y if residual is None else y + residual).to(dtype)


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """activation(x [T, K] · weightᵀ + bias) + residual → [T, N], or [T, N / 2] for a gated activation.

    The result has `dtype`; without it the type of the residual, or of x where there is none.
    """
    matrix = dense(weight)
    y = x.to(matrix.dtype) @ matrix.T
    return finish_linear(y, bias, activation, residual, linear_type(x, residual, dtype))


def adapted_linear(
    x: Tensor,
    weight: Weight,
    adapters: AdapterTable,
    slots: Tensor,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
) -> Tensor:
    """`linear` with low-rank adapters: token t has the one in slot `slots[t]` (int32 [T]), if that is not negative.

    A token without an adapter has exactly the result of `linear`.
    """
    matrix = dense(weight)
    y = (x.to(matrix.dtype) @ matrix.T).float()
    for slot in slots.unique().tolist():
        layer = adapters.layers.get(slot)
        if layer is None:
            continue
        rows = (slots == slot).nonzero().flatten()
        reduced = x[rows].float() @ dense(layer.down).float().T
        delta = torch.zeros(len(rows), weight.rows, device=x.device)
        for up in layer.ups:
            rank, width = up.rows.shape
            delta[:, up.first : up.first + width] = reduced[:, up.offset : up.offset + rank] @ up.rows
        y[rows] = y[rows] + delta
    return finish_linear(y, bias, activation, residual, linear_type(x, residual, None))
