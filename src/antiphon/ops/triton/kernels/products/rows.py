"""Products with up to 64 rows of activations, on tensor cores; bound by the reading of the weights."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate
from antiphon.ops.triton.kernels.products.prefetch import prefetch_rows


@triton.jit
def row_product(
    x, squares, w, bias, residual, next_gain, y, y_scaled, next_squares, partial, counters,
    eps,
    K: tl.constexpr, N: tl.constexpr, NORM_PARTS: tl.constexpr,
    ROWS: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
    PREFETCH: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """y [ROWS, N] = activation(x [ROWS, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    A norm before the product is split: the kernel that wrote x multiplied it by the norm's weight and left NORM_PARTS
    partial sums of squares for each row in `squares` [NORM_PARTS, ROWS]; this one divides its result by their root mean
    square. With SCALED it leaves the same for the next norm: y * next_gain in `y_scaled`, and the squares of its
    columns in `next_squares`. The K columns are divided among SPLITS programs; the last to finish adds their parts, in
    the same order every time.
    """
    release(PDL)
    pn, pk = tl.program_id(0), tl.program_id(1)
    PER: tl.constexpr = K // SPLITS
    rm = tl.arange(0, ROWS)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    wp = w + rn[:, None].to(tl.int64) * K + (pk * PER + rk)[None, :]
    prefetch_rows(w, pn.to(tl.int64) * (BN * K) + pk * PER, K, BN, PER, PREFETCH)
    if GATED:
        prefetch_rows(w, (pn.to(tl.int64) * BN + N) * K + pk * PER, K, BN, PER, PREFETCH)
    acc = tl.zeros((BN, ROWS), tl.float32)
    up = tl.zeros((BN, ROWS), tl.float32)
    wait(PDL)
    xp = x + rm[None, :] * K + (pk * PER + rk)[:, None]
    for k in range(0, PER, BK):
        w_tile = tl.load(wp + k, eviction_policy="evict_first")
        x_tile = tl.load(xp + k)
        acc = tl.dot(w_tile, x_tile, acc)
        if GATED:
            u_tile = tl.load(wp + (N * K + k), eviction_policy="evict_first")
            up = tl.dot(u_tile, x_tile, up)
    if SPLITS == 1:
        _finish(
            acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, eps, rm, rn, pn,
            K, N, NORM_PARTS, ROWS, GATED, ACTIVATION, BIAS, RESIDUAL, SCALED,
        )  # fmt: skip
    else:
        at = rn[:, None] * ROWS + rm[None, :]
        tl.store(partial + pk * (N * ROWS) + at, acc)
        if GATED:
            tl.store(partial + (SPLITS + pk) * (N * ROWS) + at, up)
        tl.debug_barrier()
        if tl.atomic_add(counters + pn, 1, sem="acq_rel", scope="gpu") == SPLITS - 1:
            tl.store(counters + pn, 0)
            acc = tl.zeros((BN, ROWS), tl.float32)
            up = tl.zeros((BN, ROWS), tl.float32)
            for split in tl.static_range(SPLITS):
                acc += tl.load(partial + split * (N * ROWS) + at, cache_modifier=".cg")
                if GATED:
                    up += tl.load(partial + (SPLITS + split) * (N * ROWS) + at, cache_modifier=".cg")
            _finish(
                acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, eps, rm, rn, pn,
                K, N, NORM_PARTS, ROWS, GATED, ACTIVATION, BIAS, RESIDUAL, SCALED,
            )  # fmt: skip


@triton.jit
def _finish(
    acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, eps, rm, rn, pn,
    K: tl.constexpr, N: tl.constexpr, NORM_PARTS: tl.constexpr, ROWS: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """The end of a product, of which `acc` and `up` are [columns, ROWS]."""
    if NORM_PARTS > 0:
        parts = tl.arange(0, triton.next_power_of_2(NORM_PARTS))
        at = parts[:, None] * ROWS + rm[None, :]
        total = tl.sum(tl.load(squares + at, mask=(parts < NORM_PARTS)[:, None], other=0.0), 0)
        factor = 1.0 / tl.sqrt(total / K + eps)
        acc *= factor[None, :]
        up *= factor[None, :]
    if BIAS:
        acc += tl.load(bias + rn).to(tl.float32)[:, None]
        if GATED:
            up += tl.load(bias + N + rn).to(tl.float32)[:, None]
    acc = activate(acc, ACTIVATION)
    if GATED:
        acc *= up
    place = rm[None, :] * N + rn[:, None]
    if RESIDUAL:
        acc += tl.load(residual + place)
    tl.store(y + place, acc.to(y.dtype.element_ty))
    if SCALED:
        scaled = acc * tl.load(next_gain + rn).to(tl.float32)[:, None]
        tl.store(y_scaled + place, scaled.to(y_scaled.dtype.element_ty))
        tl.store(next_squares + pn * ROWS + rm, tl.sum(acc * acc, 0))
