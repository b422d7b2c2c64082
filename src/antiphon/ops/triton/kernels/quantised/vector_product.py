"""Products of block-quantised weights with one row of activations, in integer arithmetic."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.products.activations import activate
from antiphon.ops.triton.kernels.quantised.activations import (
    SCALES,
    SUMS,
    add_products,
    even_bytes,
    mean_square,
    odd_bytes,
    packed_word,
)
from antiphon.ops.triton.kernels.quantised.blocks import (
    HALF_MINIMUM,
    SIGNED,
    SIX_BITS,
    block_minimum,
    block_scale,
    load_blocks,
)


@triton.jit
def quantised_vector_product(
    x, words, scales, factors, bias, residual, y,
    eps,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BLOCKS: tl.constexpr,
    NORM: tl.constexpr, GATED: tl.constexpr, ACTIVATION: tl.constexpr, BIAS: tl.constexpr, RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Compute y [N] = activation(x [K] · wᵀ + bias) + residual, with w [N, K], or [2 N, K] if GATED.

    x is packed (`activations`); with NORM, the product is divided by the root mean square packed with it. A program
    computes BN columns, BLOCKS blocks of 32 elements at a time. Each thread has whole blocks, and the words of the next
    blocks are loaded ahead. With GATED, N is a multiple of 8.
    """
    release(PDL)
    ALL: tl.constexpr = (K + 255) // 256 * 8
    rb = tl.arange(0, BLOCKS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    in_n = rn < (N + 7) // 8 * 8
    inside = in_n[None, :] & (rb < ALL)[:, None]
    tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :], inside, ALL // 8, LOW + HIGH, SCALE)
    up_tile = tile
    if GATED:
        up_tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :] + N, inside, ALL // 8, LOW + HIGH, SCALE)
    wait(PDL)
    acc = tl.zeros((BLOCKS, BN), tl.float32)
    up = tl.zeros((BLOCKS, BN), tl.float32)
    for start in range(0, ALL, BLOCKS):
        at = start + BLOCKS + rb
        inside = in_n[None, :] & (at < ALL)[:, None]
        later = load_blocks(words, scales, factors, at[:, None], rn[None, :], inside, ALL // 8, LOW + HIGH, SCALE)
        up_later = later
        if GATED:
            up_later = load_blocks(
                words, scales, factors, at[:, None], rn[None, :] + N, inside, ALL // 8, LOW + HIGH, SCALE
            )
        acc, up = _add_blocks(acc, up, tile, up_tile, x, start + rb, LOW, HIGH, OFFSET, SCALE, ALL, BN, BLOCKS, GATED)
        tile = later
        up_tile = up_later
    total = tl.sum(acc, 0)
    up_total = tl.sum(up, 0)
    if NORM:
        factor = 1.0 / tl.sqrt(mean_square(x, K) + eps)
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
def _add_blocks(
    acc, up, tile, up_tile, x, block,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr, ALL: tl.constexpr,
    BN: tl.constexpr, BLOCKS: tl.constexpr, GATED: tl.constexpr,
):  # fmt: skip
    """Return `acc` and `up` plus the products of these blocks. Within a block, sums are integers."""
    PARTS: tl.constexpr = 2 if SCALE == SIGNED else 1
    inside = block < ALL
    x_scale = packed_word(x, SCALES, block, inside, ALL).to(tl.float32, bitcast=True)
    first = packed_word(x, SUMS, block, inside, ALL)
    second = packed_word(x, SUMS + 1, block, inside, ALL)
    for part in tl.static_range(PARTS):
        high = tl.zeros((BLOCKS, BN), tl.int32)
        low = tl.zeros((BLOCKS, BN), tl.int32)
        up_high = tl.zeros((BLOCKS, BN), tl.int32)
        up_low = tl.zeros((BLOCKS, BN), tl.int32)
        for i in tl.static_range(part * (8 // PARTS), (part + 1) * (8 // PARTS)):
            upper = _four_activations(x, 0, i, LOW, block, inside, ALL)
            lower = _four_activations(x, 8, i, LOW, block, inside, ALL)
            codes = _four_codes(tile, i, LOW, HIGH)
            high = add_products(high, codes, upper)
            low = add_products(low, codes, lower)
            if GATED:
                codes = _four_codes(up_tile, i, LOW, HIGH)
                up_high = add_products(up_high, codes, upper)
                up_low = add_products(up_low, codes, lower)
        ones = first + second
        if PARTS == 2:
            ones = second if part else first
        scale = block_scale(tile[8], tile[9], part, SCALE) * x_scale
        acc += scale * (high * 256 + low - OFFSET * ones).to(tl.float32)
        if GATED:
            scale = block_scale(up_tile[8], up_tile[9], part, SCALE) * x_scale
            up += scale * (up_high * 256 + up_low - OFFSET * ones).to(tl.float32)
    if (SCALE == HALF_MINIMUM) | (SCALE == SIX_BITS):
        x_sum = (first + second).to(tl.float32) * x_scale
        acc += block_minimum(tile[8], tile[9], SCALE) * x_sum
        if GATED:
            up += block_minimum(up_tile[8], up_tile[9], SCALE) * x_sum
    return acc, up


@triton.jit
def _four_activations(x, BASE: tl.constexpr, EIGHTH: tl.constexpr, LOW: tl.constexpr, block, inside, ALL: tl.constexpr):
    """Return the high (BASE 0) or low (BASE 8) bytes of the elements whose codes `_four_codes` returns."""
    if LOW == 8:
        return packed_word(x, BASE + EIGHTH, block, inside, ALL)
    FIRST: tl.constexpr = BASE + EIGHTH // 2 * 2
    pair = packed_word(x, FIRST, block, inside, ALL), packed_word(x, FIRST + 1, block, inside, ALL)
    if EIGHTH % 2:
        return odd_bytes(pair[0], pair[1])
    return even_bytes(pair[0], pair[1])


@triton.jit
def _four_codes(tile, EIGHTH: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Return four codes of each block, as the bytes of a word.

    With eight low bits they are the elements from 4 * EIGHTH on. With four low bits, a word has eight elements: return
    the even ones if EIGHTH is even, otherwise the odd ones.
    """
    if LOW == 8:
        codes = rotated_right(tile[EIGHTH], 15)
    else:
        codes = rotated_right(tile[EIGHTH // 2], 15 + 4 * (EIGHTH % 2)) & 0x0F0F0F0F
    if HIGH == 1:
        # Move bits 0, 2, 4 and 6 of a byte to bit 4 of each byte of a word.
        bits = (rotated_right(tile[4], 15) >> (8 * (EIGHTH // 2) + EIGHTH % 2)) & 0x55
        codes |= (bits * 0x00410410) & 0x10101010
    if HIGH == 2:
        pairs = (rotated_right(tile[4 + EIGHTH // 4], 15) >> (16 * (EIGHTH // 2 % 2) + 2 * (EIGHTH % 2))) & 0x3333
        pairs = (pairs | (pairs << 8)) & 0x00330033
        codes |= ((pairs | (pairs << 4)) & 0x03030303) << 4
    return codes


@triton.jit
def rotated_right(word, BITS: tl.constexpr):
    return (word >> BITS) | (word << (32 - BITS))
