"""Attention of chunks of several tokens over the pages, for requests of different lengths in one launch."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.decode import UNSEEN
from antiphon.ops.triton.kernels.attention.pages import load_tile

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _attend(
    q, acc, top, total, low, high, table, keys, values, key_scales, value_scales,
    key_base, value_base, key_scale_base, value_scale_base, head, position, limit, num_sinks, first, factor, softcap,
    rd,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SINK_TOKENS: tl.constexpr, SOFTCAP: tl.constexpr,
    PAGE: tl.constexpr, D: tl.constexpr, EVEN: tl.constexpr, BT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Add the keys with indices from `low` to `high` to the sums; without MASKED every query sees all of them.

    Scores times `factor` are exponents of 2, and so is `top`.
    """
    rt = tl.arange(0, BT)
    for start in tl.range(low, high, BT, num_stages=STAGES):
        index = start + rt
        inside = index < high
        token = index
        if WINDOW > 0:
            token = tl.where(index < num_sinks, index, index - num_sinks + first)
        entry = tl.load(table + token // PAGE, mask=inside, other=0)
        k = load_tile(
            keys, key_scales, entry, token, head, key_base, key_scale_base, inside, rd, q.dtype, PAGE, D, EVEN
        )
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if SOFTCAP:
            # tanh(u) = 2 / (1 + exp(-2 u)) - 1
            capped = 2.0 / (1.0 + tl.exp2(scores * (-2.0 * factor / softcap))) - 1.0
            scores = capped * (softcap * LOG2_E)
        if MASKED:
            seen = inside[None, :] & (token[None, :] < limit)
            if CAUSAL:
                seen = seen & (token[None, :] <= position[:, None])
            if WINDOW > 0:
                near = token[None, :] > position[:, None] - WINDOW
                seen = seen & (near | (token[None, :] < SINK_TOKENS))
            scores = tl.where(seen, scores, UNSEEN)
        if SOFTCAP:
            higher = tl.maximum(top, tl.max(scores, 1))
            p = tl.exp2(scores - higher[:, None])
        else:
            higher = tl.maximum(top, tl.max(scores, 1) * factor)
            p = tl.exp2(scores * factor - higher[:, None])
        if MASKED:
            p = tl.where(seen, p, 0.0)  # without this, 1 for a query that has seen no token
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(p, 1)
        v = load_tile(
            values, value_scales, entry, token, head, value_base, value_scale_base, inside, rd, q.dtype, PAGE, D, EVEN
        )
        acc = tl.dot(p.to(q.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = higher
    return acc, top, total


@triton.jit
def prefill_attention(
    queries, tiles, query_start, seq_lens, rows, tables,
    keys, values, key_scales, value_scales, balance, sinks, out,
    query_stride, table_stride, key_base, value_base, key_scale_base, value_scale_base, scale, softcap,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, PAGE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SINK_TOKENS: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr,
    BALANCED: tl.constexpr,
    G: tl.constexpr, TOKENS: tl.constexpr, BT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute attention out [T, H * D] of `queries` [T, H, D], whose keys and values are in the pages already.

    A program computes TOKENS queries of one request, from position tiles[t, 1] of its chunk, for the heads that share a
    key head (G is their number, rounded up to a power of two). A tile with a negative request is empty. The last tiles,
    which see the most tokens, start first. `scale` is positive.
    """
    tile, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    EVEN: tl.constexpr = D == DB
    SHARED: tl.constexpr = H // HK
    request = tl.load(tiles + 2 * tile)
    if request < 0:
        return
    offset = tl.load(tiles + 2 * tile + 1)
    begin = tl.load(query_start + request)
    count = tl.load(query_start + request + 1) - begin
    length = tl.load(seq_lens + request)
    table = tables + tl.load(rows + request).to(tl.int64) * table_stride
    rm = tl.arange(0, TOKENS * G)
    local = offset + rm // G
    group = rm % G
    rd = tl.arange(0, DB)
    valid = (local < count) & (group < SHARED)
    inside = valid[:, None] & (rd < D)[None, :]
    element = (begin + local).to(tl.int64) * query_stride + (head * SHARED + group) * D
    q = tl.load(queries + element[:, None] + rd[None, :], mask=inside, other=0.0)
    if BALANCED:
        q = q.to(tl.float32) * tl.load(balance + head * D + rd, mask=rd < D, other=1.0)[None, :]
    q = q.to(out.dtype.element_ty)
    factor = scale * LOG2_E
    earliest = length - count + offset
    position = length - count + local
    first = 0
    num_sinks = 0
    if WINDOW > 0:
        first = tl.maximum(earliest - WINDOW + 1, 0)
        num_sinks = tl.minimum(first, SINK_TOKENS)
    limit = length
    if CAUSAL:
        limit = tl.minimum(length, earliest + TOKENS)
    high = num_sinks + limit - first
    plain = 0  # every query of the tile sees the indices below
    if WINDOW == 0:
        if CAUSAL:
            plain = tl.maximum(earliest + 1, 0) // BT * BT
        else:
            plain = high // BT * BT
    acc = tl.zeros((TOKENS * G, DB), tl.float32)
    top = tl.full((TOKENS * G,), UNSEEN, tl.float32)
    total = tl.zeros((TOKENS * G,), tl.float32)
    acc, top, total = _attend(
        q, acc, top, total, 0, plain, table, keys, values, key_scales, value_scales,
        key_base, value_base, key_scale_base, value_scale_base, head, position, limit, num_sinks, first, factor,
        softcap, rd,
        False, CAUSAL, WINDOW, SINK_TOKENS, SOFTCAP, PAGE, D, EVEN, BT, STAGES,
    )  # fmt: skip
    acc, top, total = _attend(
        q, acc, top, total, plain, high, table, keys, values, key_scales, value_scales,
        key_base, value_base, key_scale_base, value_scale_base, head, position, limit, num_sinks, first, factor,
        softcap, rd,
        True, CAUSAL, WINDOW, SINK_TOKENS, SOFTCAP, PAGE, D, EVEN, BT, STAGES,
    )  # fmt: skip
    if SINKS:
        sink = tl.load(sinks + head * SHARED + group, mask=group < SHARED, other=UNSEEN) * LOG2_E
        higher = tl.maximum(top, sink)
        fade = tl.exp2(top - higher)
        total = total * fade + tl.exp2(sink - higher)
        acc = acc * fade[:, None]
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    row = (begin + local).to(tl.int64) * (H * D) + (head * SHARED + group) * D
    tl.store(out + row[:, None] + rd[None, :], acc.to(out.dtype.element_ty), mask=inside)
