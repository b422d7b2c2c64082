"""Products of block-quantised weights with up to 64 rows of activations, on tensor cores."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate
from antiphon.ops.triton.kernels.quantised.blocks import eight_values, load_blocks


@triton.jit
def quantised_row_product(
    x, squares, words, scales, factors, bias, residual, next_gain, y, y_scaled, next_squares, partial, counters,
    rows, eps,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, STRIDE: tl.constexpr, NORM_PARTS: tl.constexpr,
    ROWS: tl.constexpr, BN: tl.constexpr, BLOCKS: tl.constexpr, SPLITS: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Compute y [rows, N] = activation(x [rows, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    ROWS is a power of two, at least 16, that is not below `rows`. Rows of y, residual and y_scaled are STRIDE elements
    apart. Weights are decoded to the type of x. NORM_PARTS, SCALED and SPLITS are the same as in `row_product`; the
    blocks of a row are divided among SPLITS programs, BLOCKS at a time.
    """
    release(PDL)
    pn, pk = tl.program_id(0), tl.program_id(1)
    TILES: tl.constexpr = (K + 255) // 256
    PER: tl.constexpr = (TILES * 8 + SPLITS * BLOCKS - 1) // (SPLITS * BLOCKS) * BLOCKS  # blocks per split
    rb = tl.arange(0, BLOCKS)
    rn = pn * BN + tl.arange(0, BN)
    rm = tl.arange(0, ROWS)
    rk = tl.arange(0, BLOCKS * 8)
    in_n = rn < (N + 7) // 8 * 8
    block = pk * PER + rb
    inside = in_n[None, :] & (block < TILES * 8)[:, None]
    tile = load_blocks(words, scales, factors, block[:, None], rn[None, :], inside, TILES, LOW + HIGH, SCALE)
    up_tile = tile
    if GATED:
        up_tile = load_blocks(words, scales, factors, block[:, None], rn[None, :] + N, inside, TILES, LOW + HIGH, SCALE)
    wait(PDL)
    acc = tl.zeros((BN, ROWS), tl.float32)
    up = tl.zeros((BN, ROWS), tl.float32)
    for start in range(pk * PER, pk * PER + PER, BLOCKS):
        block = start + BLOCKS + rb
        inside = in_n[None, :] & (block < tl.minimum(TILES * 8, pk * PER + PER))[:, None]
        later = load_blocks(words, scales, factors, block[:, None], rn[None, :], inside, TILES, LOW + HIGH, SCALE)
        up_later = later
        if GATED:
            up_later = load_blocks(
                words, scales, factors, block[:, None], rn[None, :] + N, inside, TILES, LOW + HIGH, SCALE
            )
        for i in tl.static_range(4):
            column = (start + rk // 8) * 32 + i * 8 + rk % 8
            every = (column < K)[:, None] & (rm < rows)[None, :]
            x_tile = tl.load(x + rm[None, :] * K + column[:, None], mask=every, other=0.0)
            acc = tl.dot(_matrix(tile, i, x, BN, BLOCKS, LOW, HIGH, OFFSET, SCALE), x_tile, acc)
            if GATED:
                up = tl.dot(_matrix(up_tile, i, x, BN, BLOCKS, LOW, HIGH, OFFSET, SCALE), x_tile, up)
        tile = later
        up_tile = up_later
    if SPLITS == 1:
        _finish(
            acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, rows, eps, rm, rn, pn,
            K, N, STRIDE, NORM_PARTS, ROWS, GATED, ACTIVATION, BIAS, RESIDUAL, SCALED,
        )  # fmt: skip
    else:
        at = rn[:, None] * ROWS + rm[None, :]
        present = (rn < N)[:, None] & (rm < ROWS)[None, :]
        tl.store(partial + pk * (N * ROWS) + at, acc, mask=present)
        if GATED:
            tl.store(partial + (SPLITS + pk) * (N * ROWS) + at, up, mask=present)
        tl.debug_barrier()
        if tl.atomic_add(counters + pn, 1, sem="acq_rel", scope="gpu") == SPLITS - 1:
            tl.store(counters + pn, 0)
            acc = tl.zeros((BN, ROWS), tl.float32)
            up = tl.zeros((BN, ROWS), tl.float32)
            for split in tl.static_range(SPLITS):
                acc += tl.load(partial + split * (N * ROWS) + at, mask=present, other=0.0, cache_modifier=".cg")
                if GATED:
                    others = partial + (SPLITS + split) * (N * ROWS) + at
                    up += tl.load(others, mask=present, other=0.0, cache_modifier=".cg")
            _finish(
                acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, rows, eps, rm, rn, pn,
                K, N, STRIDE, NORM_PARTS, ROWS, GATED, ACTIVATION, BIAS, RESIDUAL, SCALED,
            )  # fmt: skip


@triton.jit
def _matrix(
    tile, EIGHTH: tl.constexpr, x, BN: tl.constexpr, BLOCKS: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
):  # fmt: skip
    """Return elements from 8 * EIGHTH on of the blocks as [BN, BLOCKS * 8], in the type that x points to."""
    values = eight_values(tile, EIGHTH, LOW, HIGH, OFFSET, SCALE).to(x.dtype.element_ty)
    return tl.reshape(tl.permute(values, (1, 0, 2)), (BN, BLOCKS * 8))


@triton.jit
def _finish(
    acc, up, squares, bias, residual, next_gain, y, y_scaled, next_squares, rows, eps, rm, rn, pn,
    K: tl.constexpr, N: tl.constexpr, STRIDE: tl.constexpr, NORM_PARTS: tl.constexpr, ROWS: tl.constexpr,
    GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    """Apply norm, bias, activation, gate and residual to `acc` and `up` [columns, ROWS], and store the result."""
    in_n = rn < N
    inside = in_n[:, None] & (rm < rows)[None, :]
    if NORM_PARTS > 0:
        parts = tl.arange(0, triton.next_power_of_2(NORM_PARTS))
        at = parts[:, None] * ROWS + rm[None, :]
        total = tl.sum(tl.load(squares + at, mask=(parts < NORM_PARTS)[:, None], other=0.0), 0)
        factor = 1.0 / tl.sqrt(total / K + eps)
        acc *= factor[None, :]
        up *= factor[None, :]
    if BIAS:
        acc += tl.load(bias + rn, mask=in_n, other=0.0).to(tl.float32)[:, None]
        if GATED:
            up += tl.load(bias + N + rn, mask=in_n, other=0.0).to(tl.float32)[:, None]
    acc = activate(acc, ACTIVATION)
    if GATED:
        acc *= up
    element = rm[None, :] * STRIDE + rn[:, None]
    if RESIDUAL:
        acc += tl.load(residual + element, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + element, acc.to(y.dtype.element_ty), mask=inside)
    if SCALED:
        scaled = acc * tl.load(next_gain + rn, mask=in_n, other=0.0).to(tl.float32)[:, None]
        tl.store(y_scaled + element, scaled.to(y_scaled.dtype.element_ty), mask=inside)
        tl.store(next_squares + pn * ROWS + rm, tl.sum(tl.where(inside, acc * acc, 0.0), 0))
