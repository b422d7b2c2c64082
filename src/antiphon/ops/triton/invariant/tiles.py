"""How the work of batch-invariant kernels is divided. Only what does not change the order of a sum depends on rows.

Products of 16-bit types are chains of the same instruction (mma.sync, 16 × 8 × 16) in every tile: none has rows in
multiples of 64 with warps in multiples of 4, for which Triton takes another one on sm_90.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from antiphon.ops.triton.launch import QueryTile

#: Tokens of the context that are summed on their own.
PART_TOKENS = 512
#: Tokens of a step up to which programs share a context.
SPLIT_TOKENS = 16
MAX_SPLITS = 32
#: Columns of the weight at a time, the same in all tiles of a type.
DEPTH, WIDE_DEPTH = 64, 32
#: Rows of queries of a program: tokens times the heads that share a key head.
QUERY_ROWS, WIDE_QUERY_ROWS = 32, 16


class ProductTile(NamedTuple):
    """Rows and columns of a program, warps, stages of the pipeline."""

    rows: int
    columns: int
    warps: int
    stages: int


def product_tile(dtype: torch.dtype, rows: int, columns: int, gated: bool, multiprocessors: int) -> ProductTile:
    """The tile for so many rows of x: few of them read the weights, with enough programs to keep the memory busy."""
    if dtype is torch.float32:
        return ProductTile(16, 32, 4, 2)
    if rows <= 32:
        width = next((width for width in (64, 32) if columns >= width * multiprocessors), 16)
        columns = max(16, width // 2) if gated else width
        return ProductTile(16 if rows <= 16 else 32, columns, 4 if columns > 16 else 2, 5 if columns > 16 else 8)
    return ProductTile(64, 32 if gated else 64, 2, 3)


def attention_tile(dtype: torch.dtype, channels: int, shared: int) -> QueryTile:
    """The tile for any step; `shared` query heads (a power of two) use a key head."""
    if dtype is torch.float32:
        return QueryTile(max(1, WIDE_QUERY_ROWS // shared), 16, 4, 1)
    return QueryTile(max(1, QUERY_ROWS // shared), 64 if channels <= 128 else 32, 4, 2)


def context_splits(tokens: int, kv_heads: int, max_parts: int, multiprocessors: int) -> int:
    """Programs that share a context, where a step has so many tokens."""
    if tokens > SPLIT_TOKENS:
        return 1
    return max(1, min(max_parts, 4 * multiprocessors // (tokens * kv_heads), MAX_SPLITS))
