"""Products of block-quantised weights with few rows of activations, without tensor cores."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.activations import activate
from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.quantised_blocks import (
    HALF_MINIMUM,
    SIGNED,
    SIX_BITS,
    block_minimum,
    block_scale,
    byte_view,
    field,
    load_blocks,
)


@triton.jit
def quantised_vector_product(
    x, gain, words, scales, factors, bias, residual, y,
    rows, eps,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, K: tl.constexpr, N: tl.constexpr, STRIDE: tl.constexpr,
    BN: tl.constexpr, BLOCKS: tl.constexpr,
    NORM: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """y [rows, N] = activation(norm(x) [rows, K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    Rows of y and residual lie STRIDE elements apart. ROWS is a power of two that is not below `rows`. A program
    computes BN columns of all rows, BLOCKS blocks of 32 elements at a time; a thread has whole blocks. With GATED, N is
    a multiple of 8. With NORM, x is normalised by its root mean square and multiplied by `gain`.
    """
    release(PDL)
    TILES: tl.constexpr = (K + 255) // 256
    SUPER: tl.constexpr = (SCALE == SIX_BITS) | (SCALE == SIGNED)
    PLANES: tl.constexpr = LOW + HIGH
    EVEN: tl.constexpr = (TILES * 8) % BLOCKS == 0
    rb = tl.arange(0, BLOCKS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    in_n = rn < (N + 7) // 8 * 8
    first = in_n[None, :] & (rb < TILES * 8)[:, None]
    tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :], first, TILES, PLANES, SUPER)
    up_tile = tile
    if GATED:
        up_tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :] + N, first, TILES, PLANES, SUPER)
    wait(PDL)
    acc = _zeros(ROWS, BLOCKS, BN)
    up = _zeros(ROWS, BLOCKS, BN)
    squares = _zeros(ROWS, BLOCKS, 1)
    for block in tl.static_range(0, TILES * 8, BLOCKS):
        now = tile
        up_now = up_tile
        if block + BLOCKS < TILES * 8:
            at = block + BLOCKS + rb
            if EVEN:
                inside = in_n[None, :]
            else:
                inside = in_n[None, :] & (at < TILES * 8)[:, None]
            tile = load_blocks(words, scales, factors, at[:, None], rn[None, :], inside, TILES, PLANES, SUPER)
            if GATED:
                up_tile = load_blocks(
                    words, scales, factors, at[:, None], rn[None, :] + N, inside, TILES, PLANES, SUPER
                )
        acc, up, squares = _add_blocks(
            acc, up, squares, now, up_now, x, gain, block + rb, rows,
            LOW, HIGH, OFFSET, SCALE, ROWS, K, BLOCKS, BN, GATED, NORM,
        )  # fmt: skip
    if ROWS == 1:
        total = tl.sum(acc, 0)[None, :]
        up_total = tl.sum(up, 0)[None, :]
        square = tl.sum(squares, 0)[None, :]
    else:
        total = tl.sum(acc, 1)
        up_total = tl.sum(up, 1)
        square = tl.sum(squares, 1)
    if NORM:
        factor = 1.0 / tl.sqrt(square / K + eps)
        total *= factor
        up_total *= factor
    rm = tl.arange(0, ROWS)
    inside = (rn < N)[None, :] & (rm < rows)[:, None]
    if BIAS:
        total += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
        if GATED:
            up_total += tl.load(bias + N + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    total = activate(total, ACTIVATION)
    if GATED:
        total *= up_total
    place = rm[:, None] * STRIDE + rn[None, :]
    if RESIDUAL:
        total += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _zeros(ROWS: tl.constexpr, BLOCKS: tl.constexpr, BN: tl.constexpr):
    """Sums by row, block and column; a single row has no dimension of its own."""
    if ROWS == 1:
        zeros = tl.zeros((BLOCKS, BN), tl.float32)
    else:
        zeros = tl.zeros((ROWS, BLOCKS, BN), tl.float32)
    return zeros


@triton.jit
def _activations(x, gain, block, rows, squares, AT: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr,
                 NORM: tl.constexpr):  # fmt: skip
    """Element AT of each block of the activations, [blocks, 1] or [ROWS, blocks, 1], times the gain; and the squares."""
    column = block * 32 + AT
    inside = block < K // 32
    if ROWS == 1:
        values = tl.load(x + column, mask=inside, other=0.0).to(tl.float32)[:, None]
    else:
        rm = tl.arange(0, ROWS)
        every = (rm < rows)[:, None] & inside[None, :]
        values = tl.load(x + rm[:, None] * K + column[None, :], mask=every, other=0.0).to(tl.float32)[:, :, None]
    if NORM:
        squares += values * values
        values *= tl.load(gain + column, mask=inside, other=0.0).to(tl.float32)[:, None]
    return values, squares


@triton.jit
def _add_blocks(
    acc, up, squares, tile, up_tile, x, gain, block, rows,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    ROWS: tl.constexpr, K: tl.constexpr, BLOCKS: tl.constexpr, BN: tl.constexpr, GATED: tl.constexpr,
    NORM: tl.constexpr,
):  # fmt: skip
    """Add the products of these blocks to the sums."""
    PARTS: tl.constexpr = 2 if SCALE == SIGNED else 1
    PER_PART: tl.constexpr = LOW // PARTS
    for part in tl.static_range(PARTS):
        p = _zeros(ROWS, BLOCKS, BN)
        u = _zeros(ROWS, BLOCKS, BN)
        sums = _zeros(ROWS, BLOCKS, 1)  # of the activations
        ones = _zeros(ROWS, BLOCKS, 1)  # what the ones of the fields add to p and u
        for i in tl.static_range(part * PER_PART, (part + 1) * PER_PART):
            if LOW == 8:
                for byte in tl.static_range(4):
                    value, squares = _activations(x, gain, block, rows, squares, i * 4 + byte, ROWS, K, NORM)
                    sums += value
                    p += field(byte_view(tile[i], byte), 0, 8) * value
                    if GATED:
                        u += field(byte_view(up_tile[i], byte), 0, 8) * value
            else:
                p, u, sums, ones, squares = _add_nibbles(
                    p, u, sums, ones, squares, tile, up_tile, x, gain, block, rows, i, HIGH, ROWS, K, GATED, NORM
                )
        if LOW == 8:
            p *= 256.0
            u *= 256.0
            ones = sums * 256.0
        base = ones + sums * OFFSET
        acc += block_scale(tile[8], tile[9], part, SCALE) * (p - base)
        if GATED:
            up += block_scale(up_tile[8], up_tile[9], part, SCALE) * (u - base)
        if (SCALE == HALF_MINIMUM) | (SCALE == SIX_BITS):
            acc += block_minimum(tile[8], tile[9], SCALE) * sums
            if GATED:
                up += block_minimum(up_tile[8], up_tile[9], SCALE) * sums
    return acc, up, squares


@triton.jit
def _add_nibbles(
    p, u, sums, ones, squares, tile, up_tile, x, gain, block, rows,
    I: tl.constexpr, HIGH: tl.constexpr, ROWS: tl.constexpr, K: tl.constexpr, GATED: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Add the eight elements of word I: codes times activations to p, the activations to `sums`."""
    for byte in tl.static_range(4):
        even, squares = _activations(x, gain, block, rows, squares, I * 8 + 2 * byte, ROWS, K, NORM)
        odd, squares = _activations(x, gain, block, rows, squares, I * 8 + 2 * byte + 1, ROWS, K, NORM)
        sums += even + odd
        even_scaled = even * 256.0
        odd_scaled = odd * 16.0
        ones += even_scaled + odd_scaled
        v = byte_view(tile[I], byte)
        p += field(v, 0, 4) * even_scaled
        p += field(v, 4, 4) * odd_scaled
        if GATED:
            v = byte_view(up_tile[I], byte)
            u += field(v, 0, 4) * even_scaled
            u += field(v, 4, 4) * odd_scaled
        if HIGH > 0:
            # The high bits count sixteen times as much as the low ones
            ELEMENT: tl.constexpr = I * 8 + 2 * byte
            WORD: tl.constexpr = 4 + ELEMENT * HIGH // 32
            BYTE: tl.constexpr = ELEMENT * HIGH % 32 // 8
            AT: tl.constexpr = ELEMENT * HIGH % 8
            even_scaled = even * (4096.0 / (1 << AT))
            odd_scaled = odd * (4096.0 / (1 << (AT + HIGH)))
            ones += even_scaled + odd_scaled
            v = byte_view(tile[WORD], BYTE)
            p += field(v, AT, HIGH) * even_scaled
            p += field(v, AT + HIGH, HIGH) * odd_scaled
            if GATED:
                v = byte_view(up_tile[WORD], BYTE)
                u += field(v, AT, HIGH) * even_scaled
                u += field(v, AT + HIGH, HIGH) * odd_scaled
    return p, u, sums, ones, squares
