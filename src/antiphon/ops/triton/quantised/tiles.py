"""How the work of a quantised product is divided: sizes of tiles by shape. Timed with `benchmarks/gpu/quantised.py`."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.ops.triton.quantised.forms import BLOCK, GROUP, BlockForm

#: Programs of eight columns are then fewer than four on each multiprocessor of a large card.
FEW_COLUMNS = 4096


@dataclass(frozen=True)
class BlockVectorTile:
    """A program of the product with one row: columns, blocks of 32 elements at a time, warps."""

    columns: int
    blocks: int
    warps: int


@dataclass(frozen=True)
class BlockRowTile:
    """A program of the product with several rows, and the programs that share a column."""

    columns: int
    blocks: int
    splits: int
    warps: int


def vector_tile(form: BlockForm, k: int, columns: int, gated: bool) -> BlockVectorTile:
    """The tile for a row of k elements: whole blocks of eight columns for each thread if the row is long, else of four.

    More warps share a tile where few programs run side by side, or where a thread's blocks would not fit its registers.
    """
    if k >= 4096:
        shared = gated if form.high_bits else form.low_bits == 4 and columns <= FEW_COLUMNS
        return BlockVectorTile(8, 128, 8 if shared else 4)
    warps = 4 if k >= 2048 and not (gated and form.high_bits) else 2
    return BlockVectorTile(8, warps * 16, warps)


def row_tile(n: int, k: int, multiprocessors: int) -> BlockRowTile:
    """The tile for n columns of k elements: enough splits for about four programs on each multiprocessor."""
    columns, blocks = 32, 8
    programs = -(-n // columns)
    steps = -(-k // (BLOCK * GROUP))
    splits = 1
    while splits < 8 and programs * splits * 2 <= 4 * multiprocessors and steps // (splits * 2) >= 2:
        splits *= 2
    return BlockRowTile(columns, blocks, splits, 4)
