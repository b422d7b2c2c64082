"""Gathering of rows of an embedding, or of activations."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait


@triton.jit
def gather_scaled(
    ids, table, out, gain, scaled, squares, scale,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, SCALED: tl.constexpr, ROWS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute out [T, WIDTH] = table[ids] * scale; an id below 0 gives zeros.

    With SCALED, also write what `row_product` needs of a norm: out * gain, and each row's sum of squares.
    """
    release(PDL)
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < WIDTH
    wait(PDL)
    number = tl.load(ids + row).to(tl.int64)
    present = tl.where(inside, number, -1) >= 0
    values = tl.load(table + number * WIDTH + columns, mask=present, other=0.0).to(tl.float32) * scale
    element = row.to(tl.int64) * WIDTH + columns
    tl.store(out + element, values.to(out.dtype.element_ty), mask=inside)
    if SCALED:
        weight = tl.load(gain + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(scaled + element, (values * weight).to(scaled.dtype.element_ty), mask=inside)
        tl.store(squares + row, tl.sum(values * values, 0))
