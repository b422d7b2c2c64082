"""Attention over pages in batch-invariant mode."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.triton.invariant.tiles import PART_TOKENS, attention_tile, context_splits
from antiphon.ops.triton.kernels.attention.invariant import invariant_attention, join_parts
from antiphon.ops.triton.launch import card, ceil_power
from antiphon.ops.triton.pages import group_tiles, pages_of, table_rows


def paged_attention(
    q: Tensor,
    cache: LayerCache,
    group: GroupBatch,
    scale: float,
    causal: bool = True,
    window: int | None = None,
    sinks: Tensor | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    sink_tokens: int = 0,
) -> Tensor:
    """Compute attention over pages by the same kernel for decodes and chunks."""
    if bias is not None:
        raise UnsupportedError("batch-invariant mode has no attention with a bias on a GPU; use the device cpu")
    tokens, heads, channels = q.shape
    if q.stride(2) != 1 or q.stride(1) != channels:
        q = q.contiguous()
    out = torch.empty(tokens, heads, channels, dtype=q.dtype, device=q.device)
    if not tokens:
        return out
    kv_heads, tables, pages = cache.layout.group.num_kv_heads, group.block_tables, pages_of(cache)
    shared = ceil_power(heads // kv_heads)
    tile = attention_tile(q.dtype, channels, shared)
    tiles = group_tiles(group, tokens, tile.queries, 0)
    max_parts = -(-tables.shape[1] * cache.layout.block_tokens // PART_TOKENS)
    splits = 1 if window else context_splits(tokens, kv_heads, max_parts, card(q.device).multiprocessors)
    rows = tokens * heads * max_parts if splits > 1 else 1
    partial = torch.empty(rows * channels, device=q.device)
    tops, totals = torch.empty(2, rows, device=q.device)
    kept = q if sinks is None else sinks.float()
    sizes = dict(H=heads, HK=kv_heads, D=channels, DB=ceil_power(channels), CAUSAL=causal, SINKS=sinks is not None)
    sizes |= dict(G=shared, TOKENS=tile.queries, PART=PART_TOKENS)
    invariant_attention[(len(tiles), kv_heads, splits)](
        q, tiles, group.query_start, group.seq_lens, table_rows(group), tables, *pages.regions, kept, out,
        partial, tops, totals, q.stride(0), tables.stride(0), *pages.bases, scale, softcap or 1.0, max_parts,
        PAGE=cache.layout.block_tokens, WINDOW=window or 0, SINK_TOKENS=sink_tokens if window else 0,
        SOFTCAP=softcap is not None, BALANCED=pages.balanced, BT=tile.tokens, SPLITS=splits, STAGES=tile.stages,
        num_warps=tile.warps, enable_fp_fusion=False, **sizes,
    )  # fmt: skip
    if splits > 1:
        join_parts[(len(tiles), kv_heads)](
            tiles, group.query_start, group.seq_lens, kept, partial, tops, totals, out, max_parts,
            num_warps=tile.warps, enable_fp_fusion=False, **sizes,
        )  # fmt: skip
    return out
