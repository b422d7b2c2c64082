"""Epilogue of a product that a library computed: bias, activation, gate, residual."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.products.activations import activate


@triton.jit(do_not_specialize=["rows"])
def finish_product(
    x, bias, residual, y, rows,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr,
    BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Compute y [rows, N] = activation(x + bias) + residual of x [rows, N]; if GATED, x is [rows, 2 N], gates first.

    A program computes BLOCK columns of ROWS rows. y may be the residual.
    """
    WIDTH: tl.constexpr = 2 * N if GATED else N
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < N)
    source = x + row * WIDTH + column
    values = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        values += tl.load(bias + column, mask=column < N, other=0.0).to(tl.float32)
    values = activate(values, ACTIVATION)
    if GATED:
        up = tl.load(source + N, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            up += tl.load(bias + N + column, mask=column < N, other=0.0).to(tl.float32)
        values *= up
    if RESIDUAL:
        values += tl.load(residual + row * N + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * N + column, values.to(y.dtype.element_ty), mask=inside)
