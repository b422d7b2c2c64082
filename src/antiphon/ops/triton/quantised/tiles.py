"""Tiles of quantised products, by shape; timed with `benchmarks/gpu/quantised.py`."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.ops.triton.quantised.forms import BLOCK, GROUP, BlockForm

#: Columns up to which a large GPU has fewer than four programs of eight columns per multiprocessor.
FEW_COLUMNS = 4096


@dataclass(frozen=True)
class BlockVectorTile:
    """Tile of the product with one row: columns per program, blocks of 32 elements per iteration, warps."""

    columns: int
    blocks: int
    warps: int


@dataclass(frozen=True)
class BlockRowTile:
    """Tile of the product with several rows; `splits` programs share the blocks of a column."""

    columns: int
    blocks: int
    splits: int
    warps: int


def vector_tile(form: BlockForm, k: int, columns: int, gated: bool) -> BlockVectorTile:
    """Return the tile for rows of k elements: eight blocks per thread if the rows are long, otherwise four.

    More warps share a tile if few programs run side by side, or if a thread's blocks would not fit its registers.
    """
    if k >= 4096:
        shared = gated if form.high_bits else form.low_bits == 4 and columns <= FEW_COLUMNS
        return BlockVectorTile(8, 128, 8 if shared else 4)
    warps = 4 if k >= 2048 and not (gated and form.high_bits) else 2
    return BlockVectorTile(8, warps * 16, warps)


def row_tile(n: int, k: int, multiprocessors: int) -> BlockRowTile:
    """Return the tile for n columns of k elements, with enough splits for about four programs per multiprocessor."""
    columns, blocks = 32, 8
    programs = -(-n // columns)
    steps = -(-k // (BLOCK * GROUP))
    splits = 1
    while splits < 8 and programs * splits * 2 <= 4 * multiprocessors and steps // (splits * 2) >= 2:
        splits *= 2
    return BlockRowTile(columns, blocks, splits, 4)
