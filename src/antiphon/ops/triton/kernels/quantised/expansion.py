"""Decoding of block-quantised weights: whole matrices for products with many rows, and rows of an embedding."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.quantised.blocks import all_values, load_blocks


@triton.jit
def expand_blocks(
    words, scales, factors, out,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, N: tl.constexpr, BN: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """Write the decoded weight to out [N, K], in the type of `out`."""
    TILES: tl.constexpr = (K + 255) // 256
    rb = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    inside = (rb < K // 32)[:, None] & (rn < N)[None, :]
    tile = load_blocks(words, scales, factors, rb[:, None], rn[None, :], inside, TILES, LOW + HIGH, SCALE)
    values = all_values(tile, LOW, HIGH, OFFSET, SCALE).to(out.dtype.element_ty)
    element = tl.arange(0, 32)
    at = rn.to(tl.int64)[None, :, None] * K + (rb[:, None, None] * 32 + element[None, None, :])
    tl.store(out + at, values, mask=inside[:, :, None])


@triton.jit
def gather_blocks(
    ids, words, scales, factors, out, gain, scaled, squares, scale,
    LOW: tl.constexpr, HIGH: tl.constexpr, OFFSET: tl.constexpr, SCALE: tl.constexpr,
    K: tl.constexpr, BLOCKS: tl.constexpr, SCALED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Write rows of the decoded weight for ids [T], times `scale`, to out [T, K]; an id below 0 gives zeros.

    BLOCKS is a power of two that covers a row. With SCALED, also write what a product after a norm needs: out * gain,
    and each row's sum of squares.
    """
    release(PDL)
    token = tl.program_id(0)
    rb = tl.arange(0, BLOCKS)
    TILES: tl.constexpr = (K + 255) // 256
    wait(PDL)
    row = tl.load(ids + token)
    row = row + tl.zeros((1, 1), row.dtype)
    inside = (rb < K // 32)[:, None] & (row >= 0)
    tile = load_blocks(
        words, scales, factors, rb[:, None], tl.maximum(row, 0), inside, TILES, LOW + HIGH, SCALE
    )  # fmt: skip
    values = tl.reshape(all_values(tile, LOW, HIGH, OFFSET, SCALE), (BLOCKS, 32)) * scale
    column = rb[:, None] * 32 + tl.arange(0, 32)[None, :]
    at = token.to(tl.int64) * K + column
    tl.store(out + at, values.to(out.dtype.element_ty), mask=column < K)
    if SCALED:
        weight = tl.load(gain + column, mask=column < K, other=0.0).to(tl.float32)
        tl.store(scaled + at, (values * weight).to(scaled.dtype.element_ty), mask=column < K)
        tl.store(squares + token, tl.sum(tl.sum(values * values, 1), 0))
