"""Products with up to 64 rows of activations, on tensor cores; reading the weights takes most of the time."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate


@triton.jit
def row_product(
    x, squares, w, bias, residual, next_gain, y, y_scaled, next_squares, partial, counters,
    eps,
    K: tl.constexpr, N: tl.constexpr, NORM_PARTS: tl.constexpr,
    ROWS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
    EARLY: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute y [ROWS, N] = activation(x [ROWS, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    A norm before the product is split: the kernel that wrote x multiplied it by the norm's weight and left NORM_PARTS
    partial sums of squares for each row in `squares` [NORM_PARTS, ROWS]; this kernel divides its result by their root
    mean square. With SCALED, this kernel does the same for the next norm: it writes y * next_gain to `y_scaled`, and
    sums of the squares of its columns to `next_squares`.

    The K columns are divided among SPLITS programs; the last program to finish adds the parts, in the same order every
    time. With EARLY, the first tile of weights is loaded before the wait for the previous kernel.
    """
    release(PDL)
    pn, pk = tl.program_id(0), tl.program_id(1)
    PER: tl.constexpr = K // SPLITS
    rm = tl.arange(0, ROWS)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    wp = w + rn[:, None].to(tl.int64) * K + (pk * PER + rk)[None, :]
    w_tile = tl.zeros((BN, BK), w.dtype.element_ty)
    u_tile = w_tile
    if EARLY:
        w_tile = tl.load(wp, eviction_policy="evict_first")
        if GATED:
            u_tile = tl.load(wp + N * K, eviction_policy="evict_first")
    own_bias = tl.zeros((BN,), tl.float32)
    up_bias = own_bias
    if BIAS:
        own_bias = tl.load(bias + rn).to(tl.float32)
        if GATED:
            up_bias = tl.load(bias + N + rn).to(tl.float32)
    gain = tl.full((BN,), 1.0, tl.float32)
    if SCALED:
        gain = tl.load(next_gain + rn).to(tl.float32)
    wait(PDL)
    # Load the operands of the epilogue now: a load at the end would stall.
    element = rm[None, :] * N + rn[:, None]
    added = tl.zeros((BN, ROWS), tl.float32)
    if RESIDUAL:
        added = tl.load(residual + element)
    PARTS: tl.constexpr = triton.next_power_of_2(max(NORM_PARTS, 1))
    own_squares = tl.zeros((PARTS, ROWS), tl.float32)
    if NORM_PARTS > 0:
        parts = tl.arange(0, PARTS)
        of_part = parts[:, None] * ROWS + rm[None, :]
        own_squares = tl.load(squares + of_part, mask=(parts < NORM_PARTS)[:, None], other=0.0)
    acc = tl.zeros((BN, ROWS), tl.float32)
    up = tl.zeros((BN, ROWS), tl.float32)
    xp = x + rm[None, :] * K + (pk * PER + rk)[:, None]
    if EARLY:
        x_tile = tl.load(xp)
        acc = tl.dot(w_tile, x_tile, acc, input_precision="ieee")
        if GATED:
            up = tl.dot(u_tile, x_tile, up, input_precision="ieee")
    for k in range(BK if EARLY else 0, PER, BK):
        w_tile = tl.load(wp + k, eviction_policy="evict_first")
        x_tile = tl.load(xp + k)
        acc = tl.dot(w_tile, x_tile, acc, input_precision="ieee")
        if GATED:
            u_tile = tl.load(wp + (N * K + k), eviction_policy="evict_first")
            up = tl.dot(u_tile, x_tile, up, input_precision="ieee")
    last = True
    if SPLITS > 1:
        at = rn[:, None] * ROWS + rm[None, :]
        tl.store(partial + pk * (N * ROWS) + at, acc)
        if GATED:
            tl.store(partial + (SPLITS + pk) * (N * ROWS) + at, up)
        tl.debug_barrier()
        last = tl.atomic_add(counters + pn, 1, sem="acq_rel", scope="gpu") == SPLITS - 1
        if last:
            tl.store(counters + pn, 0)
            acc = tl.zeros((BN, ROWS), tl.float32)
            up = tl.zeros((BN, ROWS), tl.float32)
            for split in tl.static_range(SPLITS):
                acc += tl.load(partial + split * (N * ROWS) + at, cache_modifier=".cg")
                if GATED:
                    up += tl.load(partial + (SPLITS + split) * (N * ROWS) + at, cache_modifier=".cg")
    if last:
        if NORM_PARTS > 0:
            factor = 1.0 / tl.sqrt(tl.sum(own_squares, 0) / K + eps)
            acc *= factor[None, :]
            up *= factor[None, :]
        acc = activate(acc + own_bias[:, None], ACTIVATION)
        if GATED:
            acc *= up + up_bias[:, None]
        acc += added
        tl.store(y + element, acc.to(y.dtype.element_ty))
        if SCALED:
            tl.store(y_scaled + element, (acc * gain[:, None]).to(y_scaled.dtype.element_ty))
            tl.store(next_squares + pn * ROWS + rm, tl.sum(acc * acc, 0))
