"""Attention without a cache, over sequences laid end to end, as encoders need it."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.decode import UNSEEN


@triton.jit
def sequence_attention(
    q, k, v, bias, tiles, starts, out,
    q_stride, q_head_stride, k_stride, k_head_stride, v_stride, v_head_stride, bias_stride, bias_row_stride, scale,
    SHARED: tl.constexpr, H: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, CAUSAL: tl.constexpr, BIAS: tl.constexpr,
    BM: tl.constexpr, BT: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Compute attention out [T, H, D] of sequences laid end to end.

    A program computes BM queries of one head, from position tiles[t, 1] of sequence tiles[t, 0]. A tile with a negative
    sequence is empty. SHARED query heads use one key head. `bias` [H, longest, longest] is added to the scores.
    """
    tile, head = tl.program_id(0), tl.program_id(1)
    sequence = tl.load(tiles + 2 * tile)
    if sequence < 0:
        return
    offset = tl.load(tiles + 2 * tile + 1)
    begin = tl.load(starts + sequence).to(tl.int64)
    length = tl.load(starts + sequence + 1) - begin.to(tl.int32)
    rm = offset + tl.arange(0, BM)
    rt = tl.arange(0, BT)
    rd = tl.arange(0, DB)
    in_d = rd < D
    inside = (rm < length)[:, None] & in_d[None, :]
    q_tile = tl.load(q + (begin + rm)[:, None] * q_stride + head * q_head_stride + rd[None, :], mask=inside, other=0.0)
    dot_type: tl.constexpr = k.dtype.element_ty
    q_tile = (q_tile.to(tl.float32) * scale).to(dot_type)
    k_head = k + begin * k_stride + (head // SHARED) * k_head_stride
    v_head = v + begin * v_stride + (head // SHARED) * v_head_stride
    acc = tl.zeros((BM, DB), tl.float32)
    top = tl.full((BM,), UNSEEN, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    high = length
    if CAUSAL:
        high = tl.minimum(length, offset + BM)
    for start in tl.range(0, high, BT, num_stages=STAGES):
        token = start + rt
        known = token < length
        present = known[:, None] & in_d[None, :]
        k_tile = tl.load(k_head + token[:, None].to(tl.int64) * k_stride + rd[None, :], mask=present, other=0.0)
        scores = tl.dot(q_tile, tl.trans(k_tile), input_precision="ieee")
        seen = known[None, :] & (rm < length)[:, None]
        if BIAS:
            source = bias + head * bias_stride + rm[:, None] * bias_row_stride + token[None, :]
            scores += tl.load(source, mask=seen, other=0.0)
        if CAUSAL:
            seen = seen & (token[None, :] <= rm[:, None])
        scores = tl.where(seen, scores, UNSEEN)
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.where(seen, tl.exp(scores - higher[:, None]), 0.0)
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(p, 1)
        v_tile = tl.load(v_head + token[:, None].to(tl.int64) * v_stride + rd[None, :], mask=present, other=0.0)
        acc = tl.dot(p.to(dot_type), v_tile, acc * fade[:, None], input_precision="ieee")
        top = higher
    acc = acc / tl.where(total > 0, total, 1.0)[:, None]
    target = out + (begin + rm)[:, None] * (H * D) + head * D + rd[None, :]
    tl.store(target, acc.to(out.dtype.element_ty), mask=inside)
