"""Tile sizes of batch-invariant kernels. The number of rows only decides what leaves the order of sums unchanged.

Products of 16-bit types are chains of the same instruction (mma.sync, 16 × 8 × 16) in every tile: no tile has rows in
multiples of 64 with warps in multiples of 4, for which Triton uses another instruction on sm_90.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from antiphon.ops.triton.launch import QueryTile

#: Tokens per part of the context; each part is summed separately.
PART_TOKENS = 512
#: Maximum tokens of a step in which several programs share a context.
SPLIT_TOKENS = 16
MAX_SPLITS = 32
#: Columns of the weight per iteration, the same in all tiles of a type: 16-bit types, fp32.
DEPTH, WIDE_DEPTH = 64, 32
#: Query rows per program (tokens times the query heads of a key head): 16-bit types, fp32.
QUERY_ROWS, WIDE_QUERY_ROWS = 32, 16


class ProductTile(NamedTuple):
    """Tile of a product: rows and columns per program, warps, pipeline stages."""

    rows: int
    columns: int
    warps: int
    stages: int


def product_tile(dtype: torch.dtype, rows: int, columns: int, gated: bool, multiprocessors: int) -> ProductTile:
    """Return the tile for `rows` rows of x; up to 32 rows, tiles are narrow enough to occupy all multiprocessors."""
    if dtype is torch.float32:
        return ProductTile(16, 32, 4, 2)
    if rows <= 32:
        width = next((width for width in (64, 32) if columns >= width * multiprocessors), 16)
        columns = max(16, width // 2) if gated else width
        return ProductTile(16 if rows <= 16 else 32, columns, 4 if columns > 16 else 2, 5 if columns > 16 else 8)
    return ProductTile(64, 32 if gated else 64, 2, 3)


def attention_tile(dtype: torch.dtype, channels: int, shared: int) -> QueryTile:
    """Return the tile for any step; `shared` is the number of query heads per key head (a power of two)."""
    if dtype is torch.float32:
        return QueryTile(max(1, WIDE_QUERY_ROWS // shared), 16, 4, 1)
    return QueryTile(max(1, QUERY_ROWS // shared), 64 if channels <= 128 else 32, 4, 2)


def context_splits(tokens: int, kv_heads: int, max_parts: int, multiprocessors: int) -> int:
    """Return the number of programs that share a context in a step of `tokens` tokens."""
    if tokens > SPLIT_TOKENS:
        return 1
    return max(1, min(max_parts, 4 * multiprocessors // (tokens * kv_heads), MAX_SPLITS))
