"""Tiles of a decode step's products and attention, by shape; found by timing on an H200."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Order in which a weight's tiles are loaded: all at once; one after another; the next while one is computed.
UNROLLED, IN_TURN, AHEAD = range(3)


@dataclass(frozen=True)
class VectorTile:
    """Tile of `vector_product`: result columns per program, weight columns per iteration, order of weight tiles."""

    columns: int
    depth: int
    warps: int
    loop: int = UNROLLED


@dataclass(frozen=True)
class RowTile:
    """Tile of `row_product`; `splits` programs share the depth of a product.

    With `early`, the first tile of weights is loaded before the previous kernel has ended.
    """

    columns: int
    depth: int
    splits: int
    warps: int
    stages: int
    early: bool = False


@dataclass(frozen=True)
class AttentionTile:
    """Tile of `decode_attention`: tokens per iteration, and the number of tiles loaded ahead.

    With `early`, the first tile is loaded before the previous kernel has ended.
    """

    tokens: int
    warps: int
    stages: int
    early: bool = False


#: Maximum rows of products that are computed without tensor cores.
VECTOR_ROWS = 1
#: Maximum rows that our own kernels multiply; with more, the library multiplies.
ROW_PRODUCT_ROWS = 64
#: Minimum columns of a product that is taken to be the language model head.
HEAD_COLUMNS = 32768


def vector_tile(depth: int, columns: int, gated: bool) -> VectorTile:
    """Return the tile for a weight with `columns` rows of `depth` elements."""
    wide = 1 << (depth - 1).bit_length()
    if columns >= HEAD_COLUMNS:
        is_deep = depth > 2048 and depth % 512 == 0
        return VectorTile(16, 256, 4, IN_TURN) if is_deep else VectorTile(16, min(wide, 1024), 4)
    if depth <= 1024:
        return VectorTile(2, wide, 1) if gated else VectorTile(8, wide, 4)
    if depth <= 2048:
        return VectorTile(2, wide, 4)
    if depth < 4096:
        return VectorTile(2, 2048, 8)
    if depth > 8192 and depth % 512 == 0:
        return VectorTile(4, 512, 2, AHEAD)
    if depth % 512 == 0 and (gated or columns > depth):
        return VectorTile(8, 256, 2, IN_TURN) if gated else VectorTile(16, 512, 8, IN_TURN)
    return VectorTile(4, 2048, 4)


def row_tile(rows: int, depth: int, columns: int, gated: bool) -> RowTile | None:
    """Return the tile of a product, or None if no tile divides the shape or the library is faster.

    A product with few columns is divided in its depth too, so that enough programs share its weights.
    """
    if rows > ROW_PRODUCT_ROWS or rows < 16:
        return None
    if gated:
        step = _divisor(depth, 256 if depth <= 2048 else 128)
        size = 32 if depth > 2048 and columns % 32 == 0 else 16
        return RowTile(size, step, 1, 2, 4) if columns % size == 0 and step else None
    if columns % 16:
        return None
    if depth <= 2048 and columns <= 1024 and depth % 512 == 0 and rows <= 32:
        return RowTile(16, 512, 1, 4, 4)
    if depth >= 4096 and depth % 512 == 0 and columns % 64 == 0 and columns < HEAD_COLUMNS:
        return RowTile(64, 128 if columns > depth or rows > 32 else 256, 2, 4, 3, early=True)
    size = next(size for size in (64, 32, 16) if columns % size == 0)
    splits, programs = 1, columns // size
    while splits < 4 and depth % (splits * 2 * 64) == 0:
        part = depth // splits // 2
        if programs * splits >= 128 or part < (512 if programs * splits < 64 else 1024):
            break
        splits *= 2
    step = _divisor(depth // splits, 256 if splits > 1 else 128)
    if step is None:
        return None
    stages = 5 if splits == 1 and columns < HEAD_COLUMNS else 3
    return RowTile(size, step, splits, 4 if size == 64 else 2, stages)


def fitted(tile: RowTile, rows: int, gated: bool, shared_bytes: int, element_bytes: int = 2) -> RowTile:
    """Return the tile with as many stages as fit a block's shared memory, and less depth if not even two fit."""
    loaded = (tile.columns * (2 if gated else 1) + rows) * tile.depth * element_bytes
    stages = min(tile.stages, shared_bytes // loaded + 1)
    if stages < 2 and tile.depth > 32:
        return fitted(replace(tile, depth=tile.depth // 2), rows, gated, shared_bytes, element_bytes)
    return replace(tile, stages=stages)


def _divisor(depth: int, most: int) -> int | None:
    """Return the largest of 256, 128, 64 and 32 that divides `depth` and is at most `most`, or None."""
    return next((step for step in (256, 128, 64, 32) if step <= most and depth % step == 0), None)


def attention_tile(rows: int, shared: int, channels: int = 128, element_bytes: int = 2) -> AttentionTile:
    """Return the tile for `rows` requests and `shared` query heads per key head."""
    if channels > 128 or element_bytes > 2:
        return AttentionTile(32 if channels <= 256 and element_bytes == 2 else 16, 4, 1, early=rows == 1)
    if rows <= 8:
        return AttentionTile(64 if rows == 1 else 32, 4, 1, early=True)
    if 24 < rows <= 40:
        return AttentionTile(64, 4, 2, early=True)
    if 40 < rows < 128:
        return AttentionTile(64, 2, 3)
    return AttentionTile(32 if shared <= 2 or rows >= 128 else 16, 1, 3)
