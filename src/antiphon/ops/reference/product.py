"""Products with weights, and lookup of their rows."""

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
    """Look up the weight's rows for ids [T] and scale them → fp32 [T, H]. Every id must be a row of the weight."""
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
    """Return the type of a product's result: `dtype` if given, else the residual's, else that of x."""
    if dtype is not None:
        return dtype
    return x.dtype if residual is None else residual.dtype


def finish_linear(
    y: Tensor, bias: Tensor | None, activation: Activation, residual: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Apply bias, activation and residual to a product, in that order and in fp32, then convert to `dtype`."""
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
    """Compute activation(x [T, K] · weightᵀ + bias) + residual → [T, N], or [T, N / 2] for a gated activation.

    The result has `dtype` if given, else the type of the residual if given, else that of x.
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
    """Compute `linear` with low-rank adapters: token t uses the adapter in slot slots[t] (int32 [T]), -1 for none.

    Tokens without an adapter have exactly the result of `linear`.
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
