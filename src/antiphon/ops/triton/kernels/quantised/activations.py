"""Packing of one row of activations in 16 bits, for products with block-quantised weights, four bytes at a time.

A row is rounded in blocks of 32 elements, each with a scale: element = scale * (256 * high + low), where high and low
are signed bytes. Beside the block's largest element that is 15 bits, more than bf16. A packed row is one array of
32-bit words, with `blocks` blocks (zeros beyond the row's end):

    [8, blocks]      high bytes, four in a word: word w of a block has the elements 4 w to 4 w + 3
    [8, blocks]      low bytes
    [blocks]         scales, fp32
    [2, blocks]      sums of 256 * high + low: of the first and the last 16 elements
    [blocks]         sums of the squares of the row before it was multiplied by a norm's gain, fp32
"""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait

INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)

#: Largest code, 127 * 256 + 127: a larger code would not fit two signed bytes.
LARGEST = tl.constexpr(32639.0)
#: Blocks per program.
GROUP = tl.constexpr(8)
SCALES = tl.constexpr(16)
SUMS = tl.constexpr(17)
SQUARES = tl.constexpr(19)


@triton.jit
def pack_row(x, gain, packed, packed_bytes, K: tl.constexpr, NORM: tl.constexpr, PDL: tl.constexpr):
    """Pack x [K], times `gain` if NORM. `packed_bytes` is `packed` as int8. A program packs 256 elements."""
    release(PDL)
    BLOCKS: tl.constexpr = (K + 255) // 256 * GROUP
    block = tl.program_id(0) * GROUP + tl.arange(0, GROUP)
    column = block[:, None] * 32 + tl.arange(0, 32)[None, :]
    factors = tl.full((GROUP, 32), 1.0, tl.float32)
    if NORM:
        factors = tl.load(gain + column, mask=column < K, other=0.0).to(tl.float32)
    wait(PDL)
    values = tl.load(x + column, mask=column < K, other=0.0).to(tl.float32)
    store_packed(values, factors, block, block < BLOCKS, packed, packed_bytes, BLOCKS, NORM)


@triton.jit
def store_packed(
    values, factors, block, present, packed, packed_bytes, BLOCKS: tl.constexpr, NORM: tl.constexpr
):  # fmt: skip
    """Pack `values`, blocks [n, 32] with these indices; if NORM, times `factors`, with the sums of squares before."""
    element = tl.arange(0, 32)
    if NORM:
        squares = tl.sum(values * values, 1).to(tl.int32, bitcast=True)
        tl.store(packed + SQUARES * BLOCKS + block, squares, mask=present)
        values *= factors
    largest = tl.max(tl.abs(values), 1)
    # A block with a NaN or an infinity has the scale NaN.
    scale = largest / LARGEST + tl.sum(values, 1) * 0.0
    inverse = tl.where(largest > 0.0, LARGEST / largest, 0.0)
    codes = tl.floor(values * inverse[:, None] + 0.5).to(tl.int32)
    high = (codes + 128) >> 8
    low = codes - high * 256
    at = ((element[None, :] // 4) * BLOCKS + block[:, None]) * 4 + element[None, :] % 4
    every = present[:, None] & (element >= 0)[None, :]
    tl.store(packed_bytes + at, high.to(tl.int8), mask=every)
    tl.store(packed_bytes + (at + 8 * BLOCKS * 4), low.to(tl.int8), mask=every)
    tl.store(packed + SCALES * BLOCKS + block, scale.to(tl.int32, bitcast=True), mask=present)
    first = tl.sum(tl.where(element[None, :] < 16, codes, 0), 1)
    tl.store(packed + SUMS * BLOCKS + block, first, mask=present)
    tl.store(packed + (SUMS + 1) * BLOCKS + block, tl.sum(codes, 1) - first, mask=present)


@triton.jit
def mean_square(packed, K: tl.constexpr):
    """Return the mean square of the packed row, before it was multiplied by the norm's gain."""
    BLOCKS: tl.constexpr = (K + 255) // 256 * GROUP
    block = tl.arange(0, triton.next_power_of_2(BLOCKS))
    squares = tl.load(packed + SQUARES * BLOCKS + block, mask=block < BLOCKS, other=0)
    return tl.sum(squares.to(tl.float32, bitcast=True), 0) / K


@triton.jit
def packed_word(packed, WORD: tl.constexpr, block, inside, BLOCKS: tl.constexpr):
    """Return word WORD of packed blocks, [blocks, 1]."""
    return tl.load(packed + WORD * BLOCKS + block, mask=inside, other=0)[:, None]


@triton.jit
def add_products(sums, codes, x):
    """Return `sums` plus the products of four unsigned bytes with four signed bytes."""
    if INTERPRETED:
        for byte in tl.static_range(4):
            code = ((codes >> (8 * byte)) & 0xFF).to(tl.int32)
            sums += code * ((x << (24 - 8 * byte)) >> 24)
        return sums
    return tl.inline_asm_elementwise(
        "dp4a.u32.s32 $0, $1, $2, $3;", "=r,r,r,r", [codes, x, sums], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def even_bytes(first, second):
    """Return bytes 0 and 2 of two words, in one word."""
    if INTERPRETED:
        return _picked(first, second, 0)
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, 0x6420;", "=r,r,r", [first, second], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def odd_bytes(first, second):
    """Return bytes 1 and 3 of two words, in one word."""
    if INTERPRETED:
        return _picked(first, second, 8)
    return tl.inline_asm_elementwise(
        "prmt.b32 $0, $1, $2, 0x7531;", "=r,r,r", [first, second], dtype=tl.int32, is_pure=True, pack=1
    )


@triton.jit
def _picked(first, second, SHIFT: tl.constexpr):
    a = (first >> SHIFT) & 0x00FF00FF
    b = (second >> SHIFT) & 0x00FF00FF
    return (a & 0xFF) | (a >> 8) | ((b & 0xFF) << 16) | ((b & 0xFF0000) << 8)
