"""Attention of batch-invariant mode: one kernel for decodes and chunks, over fixed parts of the context.

Parts of PART tokens start at a request's first token, and each is summed separately, tile by tile. The parts' sums are
joined in order, by the program that computed them or by `join_parts`. A tile in which a query sees no token changes no
bit of the query's sums, so how far the program's other queries see has no effect.
"""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.decode import UNSEEN
from antiphon.ops.triton.kernels.attention.pages import load_tile

_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _tile(
    tiles, query_start, seq_lens, tile,
    CAUSAL: tl.constexpr, TOKENS: tl.constexpr, G: tl.constexpr, SHARED: tl.constexpr,
):  # fmt: skip
    """Return the geometry of a tile of queries.

    These are its request; for each of its rows the query's index in the batch, the head's index among those that share
    a key head, whether the row is a query, and the query's position; then the position of the first query, and the
    number of tokens that the tile's queries see together.
    """
    request = tl.load(tiles + 2 * tile)
    known = tl.maximum(request, 0)
    offset = tl.load(tiles + 2 * tile + 1)
    begin = tl.load(query_start + known)
    count = tl.where(request < 0, 0, tl.load(query_start + known + 1) - begin)
    length = tl.where(request < 0, 0, tl.load(seq_lens + known))
    rm = tl.arange(0, TOKENS * G)
    local = offset + rm // G
    group = rm % G
    valid = (local < count) & (group < SHARED)
    earliest = length - count + offset
    limit = length
    if CAUSAL:
        limit = tl.minimum(length, earliest + TOKENS)
    return known, (begin + local).to(tl.int64), group, valid, length - count + local, earliest, limit


@triton.jit
def _attend(
    q, low, high, skip_from, skip, first, limit, position, table, keys, values, key_scales, value_scales,
    key_base, value_base, key_scale_base, value_scale_base, head, softcap,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SINK_TOKENS: tl.constexpr, SOFTCAP: tl.constexpr,
    PAGE: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, ROWS: tl.constexpr, BT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Return the sums over the tokens from `low` to `high`, both multiples of BT.

    Numbers from `skip_from` on stand for tokens `skip` further on.
    """
    EVEN: tl.constexpr = D == DB
    rd = tl.arange(0, DB)
    rt = tl.arange(0, BT)
    acc = tl.zeros((ROWS, DB), tl.float32)
    top = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for start in tl.range(low, high, BT, num_stages=STAGES):
        token = start + rt
        if WINDOW > 0:
            token += tl.where(start >= skip_from, skip, 0)
        inside = token < limit
        if WINDOW > 0:
            inside = inside & ((token >= first) | (token < SINK_TOKENS))  # blocks outside the window may be freed
        entry = tl.load(table + token // PAGE, mask=inside, other=0)
        k = load_tile(
            keys, key_scales, entry, token, head, key_base, key_scale_base, inside, rd, q.dtype, PAGE, D, EVEN
        )
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        if SOFTCAP:
            scores = softcap * (2.0 / (1.0 + tl.exp(-2.0 * scores / softcap)) - 1.0)
        seen = inside[None, :] & (position[:, None] >= 0)
        if CAUSAL:
            seen = seen & (token[None, :] <= position[:, None])
        if WINDOW > 0:
            seen = seen & ((token[None, :] > position[:, None] - WINDOW) | (token[None, :] < SINK_TOKENS))
        scores = tl.where(seen, scores, UNSEEN)
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.where(seen, tl.exp2((scores - higher[:, None]) * _LOG2_E), 0.0)
        fade = tl.exp2((top - higher) * _LOG2_E)
        total = total * fade + tl.sum(p, 1)
        v = load_tile(
            values, value_scales, entry, token, head, value_base, value_scale_base, inside, rd, q.dtype, PAGE, D, EVEN
        )
        acc = tl.dot(p.to(q.dtype), v, acc * fade[:, None], input_precision="ieee")
        top = higher
    return acc, top, total


@triton.jit
def _join(acc, top, total, part_acc, part_top, part_total):
    """Return the sums of the parts so far joined with those of the next part; the first part's sums stay unchanged."""
    higher = tl.maximum(top, part_top)
    fade = tl.exp2((top - higher) * _LOG2_E)
    part_fade = tl.exp2((part_top - higher) * _LOG2_E)
    acc = acc * fade[:, None] + part_acc * part_fade[:, None]
    return acc, higher, total * fade + part_total * part_fade


@triton.jit
def _store(out, acc, top, total, sinks, query, head, group, valid, H: tl.constexpr, SHARED: tl.constexpr,
           D: tl.constexpr, DB: tl.constexpr, SINKS: tl.constexpr):  # fmt: skip
    rd = tl.arange(0, DB)
    if SINKS:
        sink = tl.load(sinks + head * SHARED + group, mask=group < SHARED, other=UNSEEN)
        higher = tl.maximum(top, sink)
        fade = tl.exp2((top - higher) * _LOG2_E)
        total = total * fade + tl.exp2((sink - higher) * _LOG2_E)
        acc = acc * fade[:, None]
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    row = (query * H + head * SHARED + group) * D
    inside = valid[:, None] & (rd < D)[None, :]
    tl.store(out + row[:, None] + rd[None, :], acc.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["max_parts"])
def invariant_attention(
    queries, tiles, query_start, seq_lens, rows, tables,
    keys, values, key_scales, value_scales, balance, sinks, out, partial, tops, totals,
    query_stride, table_stride, key_base, value_base, key_scale_base, value_scale_base, scale, softcap, max_parts,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, PAGE: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr, SINK_TOKENS: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr,
    BALANCED: tl.constexpr, G: tl.constexpr, TOKENS: tl.constexpr, BT: tl.constexpr, PART: tl.constexpr,
    SPLITS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute attention out [T, H * D] of `queries` [T, H, D], whose keys and values are in the pages already.

    A program computes TOKENS queries of one request, from position tiles[t, 1] of its chunk, for the heads that share a
    key head (G is their number, rounded up to a power of two). A tile with a negative request is empty. With SPLITS > 1
    the parts are divided among that many programs, which leave their sums for `join_parts`. With a WINDOW the context
    is one part.
    """
    tile, head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    SHARED: tl.constexpr = H // HK
    ROWS: tl.constexpr = TOKENS * G
    request, query, group, valid, position, earliest, limit = _tile(
        tiles, query_start, seq_lens, tile, CAUSAL, TOKENS, G, SHARED
    )
    table = tables + tl.load(rows + request).to(tl.int64) * table_stride
    rd = tl.arange(0, DB)
    inside = valid[:, None] & (rd < D)[None, :]
    own = queries + (query * query_stride + (head * SHARED + group) * D)[:, None] + rd[None, :]
    wide = tl.load(own, mask=inside, other=0.0).to(tl.float32) * scale
    if BALANCED:
        wide *= tl.load(balance + head * D + rd, mask=rd < D, other=1.0)[None, :]
    q = wide.to(out.dtype.element_ty)
    if WINDOW > 0:
        # Skip tiles between the sinks and the first visible token; boundaries of tiles do not move.
        first = tl.maximum(earliest - WINDOW + 1, 0)
        skip_from = tl.minimum((SINK_TOKENS + BT - 1) // BT, first // BT) * BT
        skip = first // BT * BT - skip_from
        high = tl.cdiv(limit, BT) * BT - skip
        acc, top, total = _attend(
            q, 0, high, skip_from, skip, first, limit, position, table, keys, values, key_scales, value_scales,
            key_base, value_base, key_scale_base, value_scale_base, head, softcap,
            CAUSAL, WINDOW, SINK_TOKENS, SOFTCAP, PAGE, D, DB, ROWS, BT, STAGES,
        )  # fmt: skip
        _store(out, acc, top, total, sinks, query, head, group, valid, H, SHARED, D, DB, SINKS)
    else:
        acc = tl.zeros((ROWS, DB), tl.float32)
        top = tl.full((ROWS,), UNSEEN, tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        for part in range(split, tl.cdiv(limit, PART), SPLITS):
            low = part * PART
            high = tl.cdiv(tl.minimum(limit, low + PART), BT) * BT
            part_acc, part_top, part_total = _attend(
                q, low, high, 0, 0, 0, limit, position, table, keys, values, key_scales, value_scales,
                key_base, value_base, key_scale_base, value_scale_base, head, softcap,
                CAUSAL, WINDOW, SINK_TOKENS, SOFTCAP, PAGE, D, DB, ROWS, BT, STAGES,
            )  # fmt: skip
            if SPLITS == 1:
                acc, top, total = _join(acc, top, total, part_acc, part_top, part_total)
            else:
                at = (query * H + head * SHARED + group) * max_parts + part
                tl.store(partial + at[:, None] * D + rd[None, :], part_acc, mask=inside)
                tl.store(tops + at, part_top, mask=valid)
                tl.store(totals + at, part_total, mask=valid)
        if SPLITS == 1:
            _store(out, acc, top, total, sinks, query, head, group, valid, H, SHARED, D, DB, SINKS)


@triton.jit(do_not_specialize=["max_parts"])
def join_parts(
    tiles, query_start, seq_lens, sinks, partial, tops, totals, out, max_parts,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, CAUSAL: tl.constexpr, SINKS: tl.constexpr,
    G: tl.constexpr, TOKENS: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """Join the sums that `invariant_attention` left for a tile of queries, in order, and write the results."""
    tile, head = tl.program_id(0), tl.program_id(1)
    SHARED: tl.constexpr = H // HK
    ROWS: tl.constexpr = TOKENS * G
    _, query, group, valid, _, _, limit = _tile(tiles, query_start, seq_lens, tile, CAUSAL, TOKENS, G, SHARED)
    rd = tl.arange(0, DB)
    inside = valid[:, None] & (rd < D)[None, :]
    acc = tl.zeros((ROWS, DB), tl.float32)
    top = tl.full((ROWS,), UNSEEN, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for part in range(tl.cdiv(limit, PART)):
        at = (query * H + head * SHARED + group) * max_parts + part
        part_acc = tl.load(partial + at[:, None] * D + rd[None, :], mask=inside, other=0.0)
        part_top = tl.load(tops + at, mask=valid, other=UNSEEN)
        part_total = tl.load(totals + at, mask=valid, other=0.0)
        acc, top, total = _join(acc, top, total, part_acc, part_top, part_total)
    _store(out, acc, top, total, sinks, query, head, group, valid, H, SHARED, D, DB, SINKS)
