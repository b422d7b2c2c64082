"""Product of batch-invariant mode: any number of rows, each summed in the same order."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.products.activations import activate

#: Tiles of rows that programs compute before the next tile of columns, so that they share weights in the L2 cache.
_TOGETHER = tl.constexpr(8)


@triton.jit(do_not_specialize=["rows"])
def invariant_product(
    x, w, bias, residual, y,
    rows,
    K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """Compute y [rows, N] = activation(x [rows, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    A program computes BM rows and BN columns. An element is one chain of multiply-accumulate instructions from the
    first of the K columns to the last: neither BM, BN nor a row's index in its tile changes the result.
    """
    row_tiles = tl.cdiv(rows, BM)
    COLUMN_TILES: tl.constexpr = (N + BN - 1) // BN
    program = tl.program_id(0)
    band = program // (_TOGETHER * COLUMN_TILES)
    height = tl.minimum(row_tiles - band * _TOGETHER, _TOGETHER)
    within = program % (_TOGETHER * COLUMN_TILES)
    rm = (band * _TOGETHER + within % height) * BM + tl.arange(0, BM)
    rn = (within // height) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    in_m, in_n = rm < rows, rn < N
    xp = x + rm[:, None].to(tl.int64) * K + rk[None, :]
    wp = w + rn[None, :].to(tl.int64) * K + rk[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    up = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        in_k = k + rk < K
        x_tile = tl.load(xp + k, mask=in_m[:, None] & in_k[None, :], other=0.0).to(w.dtype.element_ty)
        inside = in_k[:, None] & in_n[None, :]
        acc = tl.dot(x_tile, tl.load(wp + k, mask=inside, other=0.0), acc, input_precision="ieee")
        if GATED:
            up = tl.dot(x_tile, tl.load(wp + (N * K + k), mask=inside, other=0.0), up, input_precision="ieee")
    if BIAS:
        acc += tl.load(bias + rn, mask=in_n, other=0.0).to(tl.float32)[None, :]
        if GATED:
            up += tl.load(bias + N + rn, mask=in_n, other=0.0).to(tl.float32)[None, :]
    acc = activate(acc, ACTIVATION)
    if GATED:
        acc *= up
    element = rm[:, None].to(tl.int64) * N + rn[None, :]
    stored = in_m[:, None] & in_n[None, :]
    if RESIDUAL:
        acc += tl.load(residual + element, mask=stored, other=0.0).to(tl.float32)
    tl.store(y + element, acc.to(y.dtype.element_ty), mask=stored)
