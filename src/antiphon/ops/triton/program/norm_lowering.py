"""Lowering of norms in a decode step: fused into the next product, or a separate kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.errors import UnrecordableError
from antiphon.ops.program import instructions as program
from antiphon.ops.program.traced import Value
from antiphon.ops.triton.kernels.rows.norms import norm_rows
from antiphon.ops.triton.launch import ceil_power
from antiphon.ops.triton.normed import NextNorm, Normed
from antiphon.ops.triton.program.builder import StepBuilder
from antiphon.ops.triton.program.tiles import ROW_PRODUCT_ROWS, VECTOR_ROWS, RowTile, fitted, row_tile
from antiphon.ops.triton.quantised.matrix import QuantisedMatrix


def _is_plain(norm: program.NormInstruction) -> bool:
    return not norm.centred and norm.bias is None and norm.residual is None and norm.x.dim() == 2


def linear_row_tile(step: StepBuilder, i: program.LinearInstruction) -> RowTile | None:
    """Return the tile of a product on tensor cores, or None if the library computes the product."""
    gated = i.activation.endswith("_gate")
    columns = i.matrix.rows // 2 if gated else i.matrix.rows
    tile = row_tile(step.padded, i.matrix.columns, columns, gated)
    return (
        None if tile is None else fitted(tile, step.padded, gated, step.card.shared_bytes, step.compute_type.itemsize)
    )


def scaled_norm(step: StepBuilder, value: Value) -> program.NormInstruction | None:
    """Return the norm that reads `value` if all its products can divide by the root mean square, otherwise None."""
    if not VECTOR_ROWS < step.rows <= ROW_PRODUCT_ROWS:
        return None
    norms = [norm for norm in step.readers.norms_of(value) if _is_plain(norm)]
    if len(norms) != 1:
        return None
    products = step.readers.products_of(norms[0].out.value)
    return norms[0] if products and all(_takes_scaled(step, product) for product in products) else None


def _takes_scaled(step: StepBuilder, product: program.LinearInstruction) -> bool:
    matrix = step.matrix(product.matrix)
    return (
        linear_row_tile(step, product) is not None
        if isinstance(matrix, Tensor)
        else isinstance(matrix, QuantisedMatrix)
    )


def leave_scaled(step: StepBuilder, norm: program.NormInstruction, width: int, parts: int) -> NextNorm:
    """Allocate what the writer of a norm's input writes for the products after the norm; fuse the norm."""
    gain = step.tensor(norm.gain)
    scaled = step.hold(step.workspace.take((step.padded, width), step.compute_type), norm.out.value)
    squares = step.hold(step.workspace.take((parts, step.padded), torch.float32), norm.out.value)
    step.normed[id(norm.out.value)] = Normed(scaled, gain, norm.eps, squares, parts)
    return NextNorm(gain, scaled, squares)


def lower_norm(step: StepBuilder, i: program.NormInstruction) -> None:
    if id(i.out.value) in step.normed:
        return
    if step.rows <= VECTOR_ROWS and _is_plain(i) and step.readers.products_of(i.out.value):
        step.normed[id(i.out.value)] = Normed(step.whole(i.x), step.tensor(i.gain), i.eps)
        return
    launch_norm(step, i, 1, 4 if int(i.x.shape[-1]) <= 2048 else 8, step.card.dependent_launch)


def launch_norm(step: StepBuilder, i: program.NormInstruction, together: int, warps: int, early: bool) -> None:
    """Add a norm's kernel, with `together` rows per program; with `early` it may start before the previous one ends."""
    if i.x.dim() != 2:
        raise UnrecordableError("a norm of heads has a kernel only beside rotary embedding and store")
    width, rows, origin = int(i.x.shape[-1]), step.rows_of(i.out.value), step.readers.origin(i.x.value)
    residual: Tensor | None = None
    total: Tensor | None = None
    if id(origin) in step.sums:
        x, before = step.sums.pop(id(origin))
        residual, total = step.tensor(before), step.tensors[id(origin)]
    else:
        x = step.whole(i.x)
    if i.residual is not None:
        if residual is not None or i.total is None:
            raise UnrecordableError("a norm after two residuals has no kernel")
        residual, total = step.tensor(i.residual), step.sum_of(i.residual, i.total.value, width)
    out = step.take(i.out.value, width, step.compute_type if step.readers.products_of(i.out.value) else torch.float32)
    gain = step.tensor(i.gain)
    step.launch(
        "norm", norm_rows, (-(-rows // together),),
        (x, x if residual is None else residual, gain, step.side(i.bias, gain), out, out if total is None else total,
         rows, width, 0, width, 0, 1, i.eps),
        {"WIDTH": width, "BLOCK": ceil_power(width), "ROWS": together, "CENTRED": i.centred,
         "BIAS": i.bias is not None, "RESIDUAL": residual is not None, "PDL": early},
        warps=warps,
    )  # fmt: skip
