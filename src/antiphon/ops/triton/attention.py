"""Attention over the pages of a cache, and over sequences without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache as cached

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.reference import attention as reference
from antiphon.ops.triton.kernels.attention.decode import decode_attention
from antiphon.ops.triton.kernels.attention.prefill import prefill_attention
from antiphon.ops.triton.kernels.attention.scores import paged_scores
from antiphon.ops.triton.kernels.attention.sequence import sequence_attention
from antiphon.ops.triton.launch import (
    card,
    ceil_power,
    counters,
    decode_splits,
    decode_tile,
    joined_heads,
    prefill_tile,
    sequence_tile,
)
from antiphon.ops.triton.pages import group_tiles, pages_of, query_tiles, store_launch, table_rows

#: Cached tokens scored by one program of `paged_scores`.
SCORED_TOKENS = 128


def store_kv(k: Tensor, v: Tensor, cache: LayerCache, group: GroupBatch) -> None:
    k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (k, v))
    if len(k):
        store_launch(k, v, (*k.stride()[:2], *v.stride()[:2]), cache, group.slot_mapping, len(k))()


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
    """Run the decode kernel for the first `group.num_decodes` requests, the prefill kernel for the rest.

    The first have one query each. With a `bias`, the reference implementation computes all.
    """
    if bias is not None:
        return reference.paged_attention(q, cache, group, scale, causal, window, sinks, softcap, bias, sink_tokens)
    tokens, heads, channels = q.shape
    if q.stride(2) != 1 or q.stride(1) != channels:
        q = q.contiguous()
    out = torch.empty(tokens, heads, channels, dtype=q.dtype, device=q.device)
    seen = (window or 0, sink_tokens if window else 0)
    decodes = group.num_decodes
    if decodes:
        _decode(q, cache, group, scale, seen, sinks, softcap, out)
    if tokens > decodes:
        _prefill(q, cache, group, scale, causal, seen, sinks, softcap, out)
    return out


def _decode(
    q: Tensor,
    cache: LayerCache,
    group: GroupBatch,
    scale: float,
    seen: tuple[int, int],
    sinks: Tensor | None,
    softcap: float | None,
    out: Tensor,
) -> None:
    _, heads, channels = q.shape
    requests, kv_heads, device = group.num_decodes, cache.layout.group.num_kv_heads, q.device
    pages, tables, here = pages_of(cache), group.block_tables, card(q.device)
    tile = decode_tile(q.dtype, channels, pages.element_bytes)
    splits = decode_splits(here, requests * kv_heads)
    parts = requests * heads * splits if splits > 1 else 1
    partial = torch.empty(parts * channels, device=device)
    tops, totals = torch.empty(2, parts, device=device)
    early = here.dependent_launch
    decode_attention[(splits, kv_heads, requests)](
        q, q, q, q, group.seq_lens, table_rows(group), tables, *pages.regions, q if sinks is None else sinks.float(),
        out, out, out, partial, tops, totals, counters(device, requests * kv_heads), q.stride(0), tables.stride(0),
        *pages.bases, scale, softcap or 1.0, 0.0,
        H=heads, HK=kv_heads, D=channels, DB=ceil_power(channels), ROTATED=0, PAGE=cache.layout.block_tokens,
        WINDOW=seen[0], SINK_TOKENS=seen[1], NORM=False, SOFTCAP=softcap is not None, SINKS=sinks is not None,
        BALANCED=pages.balanced, NEW=False, GROUP=max(16, ceil_power(heads // kv_heads)), SPLITS=splits,
        JOINED=joined_heads(heads // kv_heads, splits, channels, tile.warps), BT=tile.tokens,
        STAGES=tile.stages, EARLY=False, PACKED=False, PDL=early, num_warps=tile.warps, launch_pdl=early,
    )  # fmt: skip


def _prefill(
    q: Tensor,
    cache: LayerCache,
    group: GroupBatch,
    scale: float,
    causal: bool,
    seen: tuple[int, int],
    sinks: Tensor | None,
    softcap: float | None,
    out: Tensor,
) -> None:
    tokens, heads, channels = q.shape
    first, kv_heads = group.num_decodes, cache.layout.group.num_kv_heads
    shared = ceil_power(heads // kv_heads)
    pages, tables = pages_of(cache), group.block_tables
    queries = tokens - first
    average = queries / (len(group.seq_lens) - first)
    tile = prefill_tile(q.dtype, channels, shared, average, pages.element_bytes)
    tiles = group_tiles(group, queries, tile.queries, first)
    prefill_attention[(len(tiles), kv_heads)](
        q, tiles, group.query_start, group.seq_lens, table_rows(group), tables, *pages.regions,
        q if sinks is None else sinks.float(), out, q.stride(0), tables.stride(0), *pages.bases, scale, softcap or 1.0,
        H=heads, HK=kv_heads, D=channels, DB=ceil_power(channels), PAGE=cache.layout.block_tokens, CAUSAL=causal,
        WINDOW=seen[0], SINK_TOKENS=seen[1], SOFTCAP=softcap is not None, SINKS=sinks is not None,
        BALANCED=pages.balanced, G=shared, TOKENS=tile.queries, BT=tile.tokens, STAGES=tile.stages,
        num_warps=tile.warps,
    )  # fmt: skip


def paged_attention_weights(
    q: Tensor, cache: LayerCache, group: GroupBatch, scale: float, heads: Sequence[int], causal: bool = False
) -> Tensor:
    """Return probabilities [heads, queries, tokens], as wide as the block tables: the host knows no lengths."""
    if causal:
        return reference.paged_attention_weights(q, cache, group, scale, heads, causal)
    q = q if q.stride(-1) == 1 else q.contiguous()
    (queries, all_heads, channels), page = q.shape, cache.layout.block_tokens
    pages, tables = pages_of(cache), group.block_tables
    out = torch.empty(len(heads), queries, tables.shape[1] * page, device=q.device)
    if not out.numel():
        return out
    indices = torch.arange(queries, dtype=torch.int32, device=q.device)
    requests = torch.bucketize(indices, group.query_start, out_int32=True, right=True) - 1
    requests = torch.where(requests < len(group.seq_lens), requests, -1)
    paged_scores[(queries, len(heads), -(-out.shape[2] // SCORED_TOKENS))](
        q, _numbers(tuple(heads), q.device), requests, group.seq_lens, table_rows(group), tables,
        pages.keys, pages.scales, pages.balance, out,
        *q.stride()[:2], queries, tables.stride(0), pages.bases[0], pages.bases[2], out.shape[2], scale,
        SHARED=all_heads // cache.layout.group.num_kv_heads, D=channels, DB=ceil_power(channels), PAGE=page,
        BALANCED=pages.balanced, BT=SCORED_TOKENS,
    )  # fmt: skip
    return out.softmax(-1).nan_to_num_(0.0)


@cached
def _numbers(numbers: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seq_start: Tensor,
    scale: float,
    causal: bool = False,
    bias: Tensor | None = None,
    rounded: bool = False,
) -> Tensor:
    q, k, v = (x if x.stride(-1) == 1 else x.contiguous() for x in (q, k, v))
    tokens, heads, channels = q.shape
    out = torch.empty(tokens, heads, channels, dtype=q.dtype, device=q.device)
    if not tokens:
        return out
    tile = sequence_tile(q.dtype, channels)
    tiles = query_tiles(seq_start, tokens, tile.queries)
    if bias is not None and bias.stride(-1) != 1:
        bias = bias.contiguous()
    bias_strides = (0, 0) if bias is None else bias.stride()[:2]
    sequence_attention[(len(tiles), heads)](
        q, k, v, q if bias is None else bias, tiles, seq_start, out,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *bias_strides, scale,
        SHARED=heads // k.shape[1], H=heads, D=channels, DB=ceil_power(channels), CAUSAL=causal, BIAS=bias is not None,
        BM=tile.queries, BT=tile.tokens, STAGES=tile.stages, num_warps=tile.warps,
    )  # fmt: skip
    return out
