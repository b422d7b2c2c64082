"""Products with weights in their encoded form, with bias, activation and residual in one pass; lookup of rows."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from antiphon.ops.native import half, row_scaled
from antiphon.ops.native.extension import available, extension
from antiphon.ops.native.tables import ACTIVATIONS
from antiphon.ops.reference import product as reference
from antiphon.ops.threads import default_threads
from antiphon.ops.types import Activation
from antiphon.weights.dequantize.dequantize import iq_grid
from antiphon.weights.types import TensorType
from antiphon.weights.weight import Weight, WeightPart

#: Keys of a weight's packed forms: the extension's matrix, panels of 16-bit floats, int8 rows with one scale each.
PACKED, HALF, ROW_SCALED = "native", "half", "row scaled"

_WITH_CODEBOOK = frozenset(
    {TensorType.IQ2_XXS, TensorType.IQ2_XS, TensorType.IQ2_S, TensorType.IQ3_XXS, TensorType.IQ3_S}
)


@cache
def supports_type(type: TensorType) -> bool:
    return available() and extension().supports(int(type))


def supports(weight: Weight) -> bool:
    """Return whether `matmul` and `take_rows` can read every part of a weight."""
    return PACKED in weight.packed or _supports_parts(weight)


def _supports_parts(weight: Weight) -> bool:
    return bool(weight.parts) and all(supports_type(part.type) and part.data.is_cpu for part in weight.parts)


def matmul(
    x: Tensor, weight: Weight, out: Tensor | None = None, threads: int | None = None, variant: int = 0
) -> Tensor:
    """Multiply x [T, K] · weightᵀ → fp32 [T, N], accumulated in fp32; `supports(weight)` must hold.

    Packed rows are multiplied with x rounded to int8 by groups of 32 (csrc/packed/format.h), others with x itself.
    A row of the result depends on its row of x alone, not on T or the number of threads. `out`, if given, is fp32
    [T, N] with contiguous rows. `variant` is an index in `variants()`.
    """
    matrix = matrix_of(weight)
    assert matrix is not None
    x = plain_rows(x, weight)
    tokens = x.shape[0]
    if out is None:
        out = torch.empty(tokens, weight.rows)
    elif out.shape != (tokens, weight.rows) or out.dtype != torch.float32 or (weight.rows > 1 and out.stride(1) != 1):
        shape = (tokens, weight.rows)
        raise ValueError(f"out is {out.dtype} {tuple(out.shape)}, not float32 {shape} with contiguous rows")
    matrix.multiply(
        x.data_ptr(), x.stride(0), tokens, 0, 0, False, 0, 0, out.data_ptr(), out.stride(0),
        threads or default_threads(), variant,
    )  # fmt: skip
    return out


def take_rows(weight: Weight, ids: Tensor, variant: int = 0) -> Tensor:
    """Decode the weight's rows ids [T] → fp32 [T, K]; `supports(weight)` must hold."""
    matrix = matrix_of(weight)
    assert matrix is not None
    ids = ids.to(torch.int64).contiguous()
    out = torch.empty(ids.shape[0], weight.columns)
    matrix.take_rows(ids.data_ptr(), ids.shape[0], out.data_ptr(), variant)
    return out


def embed(ids: Tensor, weight: Weight, scale: float = 1.0) -> Tensor:
    if matrix_of(weight) is None:
        return reference.embed(ids, weight, scale)
    rows = take_rows(weight, ids)
    return rows.mul_(scale) if scale != 1.0 else rows


def linear(
    x: Tensor,
    weight: Weight,
    bias: Tensor | None = None,
    activation: Activation = "none",
    residual: Tensor | None = None,
    dtype: torch.dtype | None = None,
    threads: int | None = None,
    variant: int = 0,
) -> Tensor:
    if dtype is not None:  # kernels write only fp32
        wide = None if residual is None else residual.float()
        return linear(x.float(), weight, bias, activation, wide, None, threads, variant).to(dtype)
    panels = weight.packed.get(HALF)
    if panels is not None and x.dtype is torch.float32 and not ACTIVATIONS[activation][1]:
        beside = None if residual is None else residual[None]
        return half.convolve(x[None], panels, bias, 1, (0, 0), 1, activation, beside, False, threads, variant)[0]
    rows = weight.packed.get(ROW_SCALED)
    if rows is not None:
        return _row_scaled_linear(x, weight, rows, bias, activation, residual, threads, variant)
    matrix = matrix_of(weight)
    if matrix is None:
        return reference.linear(x, weight, bias, activation, residual)
    number, gated = ACTIVATIONS[activation]
    shape = (x.shape[0], weight.rows // 2 if gated else weight.rows)
    if x.dtype is not torch.float32 or not is_plain(bias, (weight.rows,)) or not is_plain(residual, shape):
        out_type = reference.linear_type(x, residual, None)
        return reference.finish_linear(matmul(x, weight), bias, activation, residual, out_type)
    x = plain_rows(x, weight)
    out = torch.empty(*shape)
    matrix.multiply(
        x.data_ptr(), x.stride(0), shape[0], 0 if bias is None else bias.data_ptr(), number, gated,
        0 if residual is None else residual.data_ptr(), 0 if residual is None else residual.stride(0),
        out.data_ptr(), shape[1], threads or default_threads(), variant,
    )  # fmt: skip
    return out


def _row_scaled_linear(
    x: Tensor,
    weight: Weight,
    rows: row_scaled.ScaledRows,
    bias: Tensor | None,
    activation: Activation,
    residual: Tensor | None,
    threads: int | None,
    variant: int,
) -> Tensor:
    dtype, x = x.dtype, plain_rows(x, weight)
    plain = dtype is torch.float32 and is_plain(bias, (weight.rows,)) and not ACTIVATIONS[activation][1]
    if plain and is_plain(residual, (x.shape[0], weight.rows)):
        return row_scaled.multiply(x, rows, bias, activation, residual, threads, variant)
    y = row_scaled.multiply(x, rows, threads=threads, variant=variant)
    out_type = dtype if residual is None else residual.dtype
    return reference.finish_linear(y, bias, activation, residual, out_type)


def plain_rows(x: Tensor, weight: Weight) -> Tensor:
    """Return x [T, K] as fp32 with contiguous rows. Raise `ValueError` if its shape or device does not fit."""
    if x.dim() != 2 or x.shape[1] != weight.columns or not x.is_cpu:
        raise ValueError(f"x is {tuple(x.shape)} on {x.device}; the weight needs [T, {weight.columns}] on the CPU")
    if x.dtype is not torch.float32:
        x = x.float()
    return x if x.stride(1) == 1 else x.contiguous()


def is_plain(x: Tensor | None, shape: tuple[int, ...]) -> bool:
    """Return whether the extension can read x unchanged: None, or fp32 of `shape` with contiguous rows."""
    return x is None or (x.dtype is torch.float32 and x.shape == shape and x.stride(-1) == 1)


def matrix_of(weight: Weight) -> Any:
    """Return the extension's matrix of a weight, made once; None if the extension cannot read the weight."""
    matrix = weight.packed.get(PACKED)
    if matrix is None and _supports_parts(weight):
        matrix = extension().Matrix(weight.columns)
        for part in weight.parts:
            append_part(matrix, part)
        weight.packed[PACKED] = matrix
    return matrix


def append_part(matrix: Any, part: WeightPart) -> None:
    """Append rows in the file's encoding. The matrix refers to the part's memory: its owner must keep the part."""
    # `iq_grid` keeps an IQ type's codebook alive.
    codebook = iq_grid(part.type).data_ptr() if part.type in _WITH_CODEBOOK else 0
    matrix.append(part.type, part.data.data_ptr(), part.data.shape[1], part.rows, codebook)
