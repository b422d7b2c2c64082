"""What follows a large product that a library computed: bias, activation, gate, residual."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.products.activations import activate


@triton.jit
def finish_product(
    x, bias, residual, y, total,
    N: tl.constexpr, BLOCK: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr,
    RESIDUAL: tl.constexpr,
):  # fmt: skip
    """y [T, N] = activation(x + bias) + residual, of x [T, N], or [T, 2 N] if GATED; `total` elements of y in all."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    row, column = at // N, at % N
    WIDTH: tl.constexpr = 2 * N if GATED else N
    values = tl.load(x + row * WIDTH + column, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        values += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    values = activate(values, ACTIVATION)
    if GATED:
        up = tl.load(x + row * WIDTH + N + column, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            up += tl.load(bias + N + column, mask=inside, other=0.0).to(tl.float32)
        values *= up
    if RESIDUAL:
        values += tl.load(residual + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + at, values.to(y.dtype.element_ty), mask=inside)
