"""Products of block-quantised weights with one row of activations, without tensor cores."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate
from antiphon.ops.triton.kernels.quantised.blocks import (
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
    eps,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BLOCKS: tl.constexpr,
    NORM: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """y [N] = activation(norm(x) [K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    A program computes BN columns, BLOCKS blocks of 32 elements at a time; a thread has whole blocks, and the words of
    the next blocks are loaded ahead. With GATED, N is a multiple of 8. With NORM, x is normalised by its root mean
    square and multiplied by `gain`.
    """
    release(PDL)
    TILES: tl.constexpr = (K + 255) // 256
    rb = tl.arange(0, BLOCKS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    in_n = rn < (N + 7) // 8 * 8
    inside = in_n[None, :] & (rb < TILES * 8)[:, None]
    tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :], inside, TILES, LOW + HIGH, SCALE)
    up_tile = tile
    if GATED:
        up_tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :] + N, inside, TILES, LOW + HIGH, SCALE)
    wait(PDL)
    acc = tl.zeros((BLOCKS, BN), tl.float32)
    up = tl.zeros((BLOCKS, BN), tl.float32)
    for start in range(0, TILES * 8, BLOCKS):
        at = start + BLOCKS + rb
        inside = in_n[None, :] & (at < TILES * 8)[:, None]
        later = load_blocks(words, scales, factors, at[:, None], rn[None, :], inside, TILES, LOW + HIGH, SCALE)
        up_later = later
        if GATED:
            up_later = load_blocks(
                words, scales, factors, at[:, None], rn[None, :] + N, inside, TILES, LOW + HIGH, SCALE
            )
        acc, up = _add_blocks(
            acc, up, tile, up_tile, x, gain, start + rb, LOW, HIGH, OFFSET, SCALE, K, BN, BLOCKS, GATED, NORM
        )
        tile = later
        up_tile = up_later
    total = tl.sum(acc, 0)
    up_total = tl.sum(up, 0)
    if NORM:
        columns = tl.arange(0, triton.next_power_of_2(K))
        values = tl.load(x + columns, mask=columns < K, other=0.0).to(tl.float32)
        factor = 1.0 / tl.sqrt(tl.sum(values * values, 0) / K + eps)
        total *= factor
        up_total *= factor
    if BIAS:
        total += tl.load(bias + rn, mask=rn < N, other=0.0).to(tl.float32)
        if GATED:
            up_total += tl.load(bias + N + rn, mask=rn < N, other=0.0).to(tl.float32)
    total = activate(total, ACTIVATION)
    if GATED:
        total *= up_total
    if RESIDUAL:
        total += tl.load(residual + rn, mask=rn < N, other=0.0).to(tl.float32)
    tl.store(y + rn, total.to(y.dtype.element_ty), mask=rn < N)


@triton.jit
def _activations(x, gain, block, AT: tl.constexpr, K: tl.constexpr, BLOCKS: tl.constexpr, NORM: tl.constexpr):
    """Element AT of each block of the activations, [blocks, 1], times the gain."""
    column = block * 32 + AT
    if K % (BLOCKS * 32) == 0:
        values = tl.load(x + column).to(tl.float32)
        if NORM:
            values *= tl.load(gain + column).to(tl.float32)
    else:
        values = tl.load(x + column, mask=block < K // 32, other=0.0).to(tl.float32)
        if NORM:
            values *= tl.load(gain + column, mask=block < K // 32, other=0.0).to(tl.float32)
    return values[:, None]


@triton.jit
def _add_blocks(
    acc, up, tile, up_tile, x, gain, block,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr, K: tl.constexpr,
    BN: tl.constexpr, BLOCKS: tl.constexpr, GATED: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """Add the products of these blocks to the sums.

    `even` and `odd` are sums over the even and odd elements of a block, because their fields have different values:
    code / 256 and code / 16 for the low four bits.
    """
    PARTS: tl.constexpr = 2 if SCALE == SIGNED else 1
    EACH: tl.constexpr = 4 if LOW == 4 else 2  # pairs of elements in a word
    ODD: tl.constexpr = 16.0 if LOW == 4 else 256.0
    for part in tl.static_range(PARTS):
        even = tl.zeros((BLOCKS, BN), tl.float32)
        odd = tl.zeros((BLOCKS, BN), tl.float32)
        up_even = tl.zeros((BLOCKS, BN), tl.float32)
        up_odd = tl.zeros((BLOCKS, BN), tl.float32)
        x_even = tl.zeros((BLOCKS, 1), tl.float32)
        x_odd = tl.zeros((BLOCKS, 1), tl.float32)
        high_ones = tl.zeros((BLOCKS, 1), tl.float32)
        for i in tl.static_range(part * (LOW // PARTS), (part + 1) * (LOW // PARTS)):
            for pair in tl.static_range(EACH):
                a = _activations(x, gain, block, (i * EACH + pair) * 2, K, BLOCKS, NORM)
                b = _activations(x, gain, block, (i * EACH + pair) * 2 + 1, K, BLOCKS, NORM)
                x_even += a
                x_odd += b
                even, odd = _add_pair(even, odd, tile[i], pair, LOW, a, b)
                if GATED:
                    up_even, up_odd = _add_pair(up_even, up_odd, up_tile[i], pair, LOW, a, b)
                if HIGH > 0:
                    # Scaled so that they can be added to the even elements' low bits, sixteen of which they count
                    a *= 16.0 / (1 << ((i * EACH + pair) * 2 * HIGH % 8))
                    b *= 16.0 / (1 << (((i * EACH + pair) * 2 + 1) * HIGH % 8))
                    high_ones += a + b
                    even = _add_high(even, tile, (i * EACH + pair) * 2, HIGH, a, b)
                    if GATED:
                        up_even = _add_high(up_even, up_tile, (i * EACH + pair) * 2, HIGH, a, b)
        sums = x_even + x_odd
        base = (x_even + high_ones) * 256.0 + x_odd * ODD + sums * OFFSET
        acc += block_scale(tile[8], tile[9], part, SCALE) * (even * 256.0 + odd * ODD - base)
        if GATED:
            up += block_scale(up_tile[8], up_tile[9], part, SCALE) * (up_even * 256.0 + up_odd * ODD - base)
        if (SCALE == HALF_MINIMUM) | (SCALE == SIX_BITS):
            acc += block_minimum(tile[8], tile[9], SCALE) * sums
            if GATED:
                up += block_minimum(up_tile[8], up_tile[9], SCALE) * sums
    return acc, up


@triton.jit
def _add_pair(even, odd, word, PAIR: tl.constexpr, LOW: tl.constexpr, a, b):
    """Add the low bits of two neighbouring elements of a word, each times its activation."""
    if LOW == 4:
        v = byte_view(word, PAIR)
        even += field(v, 0, 4) * a
        odd += field(v, 4, 4) * b
    else:
        even += field(byte_view(word, 2 * PAIR), 0, 8) * a
        odd += field(byte_view(word, 2 * PAIR + 1), 0, 8) * b
    return even, odd


@triton.jit
def _add_high(even, tile, ELEMENT: tl.constexpr, HIGH: tl.constexpr, a, b):
    """Add the high bits of this element of a block and of the next one."""
    BIT: tl.constexpr = ELEMENT * HIGH
    v = byte_view(tile[4 + BIT // 32], BIT % 32 // 8)
    even += field(v, BIT % 8, HIGH) * a
    even += field(v, BIT % 8 + HIGH, HIGH) * b
    return even
