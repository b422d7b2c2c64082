"""Lowering of products in a decode step, in one of three ways by the number of rows; see `decode`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from antiphon.ops.program import instructions as program
from antiphon.ops.triton.epilogue import epilogue_constants, finish_launch
from antiphon.ops.triton.kernel_launch import Call
from antiphon.ops.triton.kernels.products.rows import row_product
from antiphon.ops.triton.kernels.products.vector import vector_product
from antiphon.ops.triton.library import multiply
from antiphon.ops.triton.normed import NextNorm
from antiphon.ops.triton.program.builder import StepBuilder
from antiphon.ops.triton.program.norm_lowering import leave_scaled, linear_row_tile, scaled_norm
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS, VECTOR_ROWS, RowTile, vector_tile
from antiphon.ops.triton.quantised.launches import Product
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix
from antiphon.ops.triton.quantised.prepare import PreparedWeight
from antiphon.ops.triton.quantised.workspace import workspace_of


def lower_linear(step: StepBuilder, i: program.LinearInstruction) -> None:
    matrix = step.matrix(i.matrix)
    gated = i.activation.endswith("_gate")
    columns = i.matrix.rows // 2 if gated else i.matrix.rows
    is_output = None in step.readers.of(i.out.value)
    dtype = torch.float32 if is_output or i.residual is not None else step.compute_type
    constants = {"K": i.matrix.columns, "N": columns, **epilogue_constants(i.activation, i.bias, i.residual)}
    if not isinstance(matrix, Tensor):
        _quantised_product(step, i, matrix, columns, dtype)
        return
    if step.rows <= VECTOR_ROWS:
        _vector_product(step, i, matrix, columns, dtype, constants)
        return
    tile = linear_row_tile(step, i)
    if tile is not None:
        _row_product(step, i, matrix, columns, dtype, constants, tile)
    else:
        _library_product(step, i, matrix, columns, dtype)


def _quantised_product(
    step: StepBuilder, i: program.LinearInstruction, matrix: PreparedWeight, columns: int, dtype: torch.dtype
) -> None:
    if step.rows > ROW_PRODUCT_ROWS or (step.rows > VECTOR_ROWS and not isinstance(matrix, QuantisedMatrix)):
        _library_product(step, i, matrix, columns, dtype)
        return
    normed = step.normed.get(id(step.readers.origin(i.x.value)))
    x = normed.x if normed is not None else step.whole(i.x)
    if step.rows > VECTOR_ROWS:
        x = step.cast(x)
    product = Product(
        x, step.take(i.out.value, columns, dtype), step.rows, i.activation,
        step.optional(i.bias), step.optional(i.residual), normed,
        packed=step.packed.get(id(step.readers.origin(i.x.value))),
    )  # fmt: skip
    if not isinstance(matrix, QuantisedMatrix):
        step.emit([matrix.vector_launch(product, step.card)])
        return
    if step.rows <= VECTOR_ROWS:
        step.emit(matrix.vector_launches(product, step.scratch, step.card))
        return
    norm, parts = scaled_norm(step, i.out.value), matrix.scaled_parts(columns, product.gated, step.card)
    if norm is not None and parts:
        product = replace(product, next=leave_scaled(step, norm, columns, parts))
    step.emit(matrix.row_launches(product, step.counters, step.scratch, step.card))


def _vector_product(
    step: StepBuilder,
    i: program.LinearInstruction,
    matrix: Tensor,
    columns: int,
    dtype: torch.dtype,
    constants: dict[str, Any],
) -> None:
    normed = step.normed.get(id(step.readers.origin(i.x.value)))
    x = step.whole(i.x) if normed is None else normed.x
    out = step.take(i.out.value, columns, dtype)
    tile = vector_tile(i.matrix.columns, columns, bool(constants["GATED"]))
    step.launch(
        "product", vector_product, (-(-columns // tile.columns),),
        (x, x if normed is None else normed.gain, matrix, step.side(i.bias, x), step.side(i.residual, x), out,
         0.0 if normed is None else normed.eps),
        {**constants, "ROWS": step.padded, "BN": tile.columns, "BK": tile.depth, "NORM": normed is not None,
         "LOOP": tile.loop, "PDL": step.card.dependent_launch},
        tile.warps, weight_bytes=matrix.nbytes,
    )  # fmt: skip


def _row_product(
    step: StepBuilder, i: program.LinearInstruction, matrix: Tensor, columns: int, dtype: torch.dtype,
    constants: dict[str, Any], tile: RowTile,
) -> None:  # fmt: skip
    normed = step.normed.get(id(step.readers.origin(i.x.value)))
    x = step.cast(step.whole(i.x)) if normed is None else normed.x
    out = step.take(i.out.value, columns, dtype)
    norm = scaled_norm(step, i.out.value)
    programs = columns // tile.columns
    after = NextNorm(out, out, out) if norm is None else leave_scaled(step, norm, columns, programs)
    partial = out
    if tile.splits > 1:
        partial = step.scratch((tile.splits * (2 if constants["GATED"] else 1), columns * step.padded))
    step.launch(
        "product", row_product, (programs, tile.splits),
        (x, x if normed is None else normed.squares, matrix, step.side(i.bias, x), step.side(i.residual, x),
         after.gain, out, after.scaled, after.squares, partial, step.counters,
         0.0 if normed is None else normed.eps),
        {**constants, "NORM_PARTS": 0 if normed is None else normed.parts, "ROWS": step.padded,
         "BN": tile.columns, "BK": tile.depth, "SPLITS": tile.splits, "SCALED": norm is not None,
         "EARLY": tile.early, "PDL": step.card.dependent_launch},
        tile.warps, tile.stages, matrix.nbytes,
    )  # fmt: skip


def _library_product(
    step: StepBuilder, i: program.LinearInstruction, matrix: Tensor | PreparedWeight, columns: int, dtype: torch.dtype
) -> None:
    x = step.cast(step.whole(i.x))
    norms = step.readers.norms_of(i.out.value)
    plain = i.activation == "none" and i.bias is None
    added = (
        plain and i.residual is not None and len(norms) > 0 and norms[0].residual is None
        and step.readers.of(i.out.value)[0] is norms[0]
    )  # fmt: skip
    if plain and i.residual is None:
        multiply_rows(step, x, matrix, step.take(i.out.value, columns, dtype))
        return
    if added:
        product = step.hold(step.workspace.take((step.padded, columns), step.compute_type), i.out.value)
        multiply_rows(step, x, matrix, product)
        step.take(i.out.value, columns, torch.float32)
        assert i.residual is not None
        # The residual must live until the norm adds it.
        step.sums[id(step.readers.origin(i.out.value))] = (product, i.residual)
        step.extend(i.residual.value, i.out.value)
        return
    product = step.scratch((step.padded, i.matrix.rows), step.compute_type)
    multiply_rows(step, x, matrix, product)
    out = step.take(i.out.value, columns, dtype)
    bias, residual = step.optional(i.bias), step.optional(i.residual)
    step.emit([finish_launch(product, bias, i.activation, residual, out, step.rows)])


def multiply_rows(step: StepBuilder, x: Tensor, matrix: Tensor | PreparedWeight, out: Tensor) -> None:
    """Add the library's product out = x · matrixᵀ to the step."""
    if not isinstance(matrix, Tensor):
        if not out.is_meta:
            step.emit(matrix.library_calls(x, out, workspace_of(out.device)))
        return
    step.launches.append(Call("library product", multiply, (x, matrix, out), weight_bytes=matrix.nbytes))
