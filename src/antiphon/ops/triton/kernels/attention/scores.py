"""Scores of queries against cached keys, for operations that return the probabilities themselves."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.pages import load_tile


@triton.jit
def paged_scores(
    q, chosen, requests, seq_lens, rows, tables, keys, key_scales, balance, out,
    q_stride, q_head_stride, num_queries, table_stride, key_base, key_scale_base, width, scale,
    SHARED: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, PAGE: tl.constexpr, BALANCED: tl.constexpr,
    BT: tl.constexpr,
):  # fmt: skip
    """Write the scores of head chosen[h] of each query over its request's tokens to out [heads, num_queries, width].

    Scores are fp32. They are minus infinity past the end of request requests[query], and for a query without a request
    (-1).
    """
    query, index, tile = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    request = tl.load(requests + query)
    head = tl.load(chosen + index)
    known = request >= 0
    length = tl.load(seq_lens + request, mask=known, other=0)
    row = tl.load(rows + request, mask=known, other=0).to(tl.int64)
    rd = tl.arange(0, DB)
    token = tile * BT + tl.arange(0, BT)
    mask = token < length
    own = tl.load(q + query.to(tl.int64) * q_stride + head * q_head_stride + rd, mask=rd < D, other=0.0)
    own = own.to(tl.float32) * scale
    if BALANCED:
        own *= tl.load(balance + (head // SHARED) * D + rd, mask=rd < D, other=1.0)
    entry = tl.load(tables + row * table_stride + token // PAGE, mask=mask, other=0)
    k = load_tile(
        keys, key_scales, entry, token, head // SHARED, key_base, key_scale_base, mask, rd, tl.float32, PAGE, D, DB == D
    )
    scores = tl.where(mask, tl.sum(k * own[None, :], 1), float("-inf"))
    target = out + (index * num_queries + query).to(tl.int64) * width + token
    tl.store(target, scores, mask=token < width)
