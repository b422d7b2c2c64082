"""Products of few rows of activations with weights in e4m3, the 8-bit float, that have one scale per row."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate


@triton.jit
def fp8_vector_product(
    x, gain, w, scales, bias, residual, y,
    rows, eps,
    ROWS: tl.constexpr, K: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    NORM: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Compute y [rows, N] = activation(norm(x) [rows, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    An element of w is scales[row] * code; codes are bytes (uint8). ROWS is a power of two that is not below `rows`.
    With NORM, x is normalised by its root mean square and multiplied by `gain`.
    """
    release(PDL)
    rm = tl.arange(0, ROWS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    in_n = rn < N
    wp = w + rn[:, None].to(tl.int64) * K + rk[None, :]
    inside = in_n[:, None] & (rk < K)[None, :]
    w_tile = tl.load(wp, mask=inside, other=0, eviction_policy="evict_first")
    u_tile = w_tile
    if GATED:
        u_tile = tl.load(wp + N * K, mask=inside, other=0, eviction_policy="evict_first")
    wait(PDL)
    squares = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, BN), tl.float32)
    up = tl.zeros((ROWS, BN), tl.float32)
    for k in range(0, K, BK):
        inside = in_n[:, None] & (k + BK + rk < K)[None, :]
        later = tl.load(wp + (k + BK), mask=inside, other=0, eviction_policy="evict_first")
        u_later = later
        if GATED:
            u_later = tl.load(wp + (N * K + k + BK), mask=inside, other=0, eviction_policy="evict_first")
        at = k + rk
        every = (rm < rows)[:, None] & (at < K)[None, :]
        x_tile = tl.load(x + rm[:, None] * K + at[None, :], mask=every, other=0.0).to(tl.float32)
        if NORM:
            squares += tl.sum(x_tile * x_tile, 1)
            x_tile *= tl.load(gain + at, mask=at < K, other=0.0).to(tl.float32)[None, :]
        acc += tl.sum(_numbers(w_tile)[None, :, :] * x_tile[:, None, :], 2)
        if GATED:
            up += tl.sum(_numbers(u_tile)[None, :, :] * x_tile[:, None, :], 2)
        w_tile = later
        u_tile = u_later
    # `_numbers` divides by 256.
    acc *= (tl.load(scales + rn, mask=in_n, other=0.0) * 256.0)[None, :]
    if GATED:
        up *= (tl.load(scales + N + rn, mask=in_n, other=0.0) * 256.0)[None, :]
    if NORM:
        factor = 1.0 / tl.sqrt(squares / K + eps)
        acc *= factor[:, None]
        up *= factor[:, None]
    if BIAS:
        acc += tl.load(bias + rn, mask=in_n, other=0.0).to(tl.float32)[None, :]
        if GATED:
            up += tl.load(bias + N + rn, mask=in_n, other=0.0).to(tl.float32)[None, :]
    acc = activate(acc, ACTIVATION)
    if GATED:
        acc *= up
    element = rm[:, None] * N + rn[None, :]
    present = in_n[None, :] & (rm < rows)[:, None]
    if RESIDUAL:
        acc += tl.load(residual + element, mask=present, other=0.0).to(tl.float32)
    tl.store(y + element, acc.to(y.dtype.element_ty), mask=present)


@triton.jit
def _numbers(codes):
    """Return the numbers of e4m3 codes (uint8) divided by 256, in fp32: exponent and mantissa are read as f16."""
    wide = codes.to(tl.uint16)
    bits = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    return bits.to(tl.float16, bitcast=True).to(tl.float32)
