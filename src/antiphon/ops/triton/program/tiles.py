"""Tiles of the products of a decode step, by shape; found by timing on an H200."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VectorTile:
    """Of `vector_product`: columns of the result for a program, columns of the weight at a time."""

    columns: int
    depth: int
    warps: int


@dataclass(frozen=True)
class RowTile:
    """Of `row_product`; `splits` programs share the depth of a product."""

    columns: int
    depth: int
    splits: int
    warps: int
    stages: int
    prefetch: bool = False


@dataclass(frozen=True)
class AttentionTile:
    """Of `decode_attention`: tokens at a time, and how many tiles are loaded ahead."""

    tokens: int
    warps: int
    stages: int


#: Rows up to which products are computed without tensor cores.
VECTOR_ROWS = 4
#: Rows up to which our own kernels multiply; beyond, the library does.
ROW_PRODUCT_ROWS = 64


def vector_tile(rows: int, depth: int, columns: int) -> VectorTile:
    """`depth` is the length of a row of the weight, `columns` their number."""
    wide = 1 << (depth - 1).bit_length()
    if columns >= 32768:
        return VectorTile(8 if rows < 4 else 4, min(wide, 1024), 4 if depth > 2048 else 2)
    if depth <= 1024:
        return VectorTile(4, wide, 2 if columns < 6144 else 4)
    if depth <= 2048:
        return VectorTile(2 if columns <= 2048 else 4, min(wide, 2048), 4)
    if rows > 1:
        return VectorTile(4, 1024, 4)
    return VectorTile(8, 1024, 8) if columns <= 4096 else VectorTile(4, 1024, 4)


def row_tile(rows: int, depth: int, columns: int, gated: bool, multiprocessors: int) -> RowTile | None:
    """None: no tile divides the shape, or the library is better."""
    if rows > ROW_PRODUCT_ROWS:
        return None
    size = next((size for size in ((32, 16) if gated else (64, 32, 16)) if columns % size == 0), None)
    if size is None:
        return None
    while size > 16 and columns // size < multiprocessors:
        size //= 2
    splits = 1
    while splits < 4 and columns // size * splits < multiprocessors and depth % (splits * 2 * 128) == 0:
        splits *= 2
    step = next((step for step in (256, 128, 64, 32) if (depth // splits) % step == 0), None)
    if step is None:
        return None
    step = min(step, 16384 // max(size, rows) // (2 if gated else 1))
    return RowTile(size, step, splits, 4 if size >= 64 else 2, 3)


def attention_tile(rows: int, shared: int) -> AttentionTile:
    """`shared` query heads have one key head."""
    return AttentionTile(64, 2, 1 if rows <= VECTOR_ROWS else 3)
