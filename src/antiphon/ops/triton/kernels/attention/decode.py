"""Attention of one new token per request: one kernel prepares and stores its heads, and attends over the pages."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.attention.pages import load_tile, store_token
from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.quantised.activations import store_packed

#: Score of a masked token; its exponential is 0.
UNSEEN = tl.constexpr(-1.0e30)


@triton.jit
def _rotated(x, turned, gain, gain_turned, cos, sin, factor, NORM: tl.constexpr):
    """Return channels x after norm and rotation; `turned` are their rotary partners, whose signs are in `sin`."""
    if NORM:
        x = x * gain
        turned = turned * gain_turned
    return (x * cos + turned * sin) * factor


@triton.jit
def _capped(scores, softcap, SOFTCAP: tl.constexpr):
    if SOFTCAP:
        scores = softcap * (2.0 / (1.0 + tl.exp(-2.0 * scores / softcap)) - 1.0)
    return scores


@triton.jit
def _load_tokens(
    keys, values, key_scales, value_scales, table, index, high, head, first, num_sinks, key_base, value_base,
    key_scale_base, value_scale_base, channels, to: tl.constexpr, PAGE: tl.constexpr, D: tl.constexpr,
    EVEN: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """Return keys and values of the visible tokens numbered `index`, and the mask of `index` below `high`."""
    inside = index < high
    token = index
    if WINDOW > 0:
        token = tl.where(index < num_sinks, index, index - num_sinks + first)
    entry = tl.load(table + token // PAGE, mask=inside, other=0)
    k = load_tile(keys, key_scales, entry, token, head, key_base, key_scale_base, inside, channels, to, PAGE, D, EVEN)
    v = load_tile(
        values, value_scales, entry, token, head, value_base, value_scale_base, inside, channels, to, PAGE, D, EVEN
    )
    return k, v, inside


@triton.jit
def _attend(q, k, v, mask, top, total, acc, softcap, SOFTCAP: tl.constexpr):
    """Return the running maximum, sum and result after one more tile of tokens."""
    scores = _capped(tl.dot(q, tl.trans(k), input_precision="ieee"), softcap, SOFTCAP)
    scores = tl.where(mask[None, :], scores, UNSEEN)
    higher = tl.maximum(top, tl.max(scores, 1))
    p = tl.exp(scores - higher[:, None])
    fade = tl.exp(top - higher)
    acc = acc * fade[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
    return higher, total * fade + tl.sum(p, 1), acc


@triton.jit
def decode_attention(
    qkv, q_gain, k_gain, angles, seq_lens, rows, tables,
    keys, values, key_scales, value_scales, balance, sinks,
    out, packed, packed_bytes, partial, tops, totals, counters,
    qkv_stride, table_stride, key_base, value_base, key_scale_base, value_scale_base, scale, softcap, eps,
    H: tl.constexpr, HK: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, ROTATED: tl.constexpr, PAGE: tl.constexpr,
    WINDOW: tl.constexpr, SINK_TOKENS: tl.constexpr, NORM: tl.constexpr, SOFTCAP: tl.constexpr, SINKS: tl.constexpr,
    BALANCED: tl.constexpr, NEW: tl.constexpr,
    GROUP: tl.constexpr, SPLITS: tl.constexpr, JOINED: tl.constexpr, BT: tl.constexpr,
    STAGES: tl.constexpr, EARLY: tl.constexpr, PACKED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Compute attention out [R, H * D] for R requests with queries, keys and values of one token each in `qkv`.

    Request r has seq_lens[r] tokens including the new one, in the blocks of row rows[r] of the table; a length of 0 is
    padding and gives zeros. Without NEW, `qkv` may have queries only, and all tokens are in the pages already.

    A program computes GROUP (at least H / HK) query heads of one key head over one of SPLITS parts of the context. The
    last part, which may be shorter than the others, also has the new token. The last program of a head to finish
    combines the parts, JOINED heads at a time.

    With a WINDOW, only the last tokens and the first SINK_TOKENS are visible. With EARLY, the first tile of the pages
    is loaded before the wait for the previous kernel. With PACKED (one request, heads of whole blocks of 32 channels),
    the result is packed (`quantised/activations`) and `out` is not written.
    """
    release(PDL)
    split, head, request = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    G: tl.constexpr = H // HK
    HALF: tl.constexpr = ROTATED // 2
    EVEN: tl.constexpr = D == DB
    dot_type: tl.constexpr = out.dtype.element_ty
    rd = tl.arange(0, DB)
    rg = tl.arange(0, GROUP)
    rt = tl.arange(0, BT)
    in_g = rg < G
    in_d = rd < D
    length = tl.load(seq_lens + request)
    row = tl.load(rows + request).to(tl.int64)
    table = tables + row * table_stride
    past = length - NEW  # tokens in the pages before this kernel
    position = tl.maximum(length - 1, 0)
    first = 0
    num_sinks = 0
    if WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0)
        num_sinks = tl.minimum(first, SINK_TOKENS)
    seen = num_sinks + tl.maximum(past - first, 0)
    per = tl.cdiv(seen, SPLITS * BT) * BT
    low = split * per
    high = tl.minimum(low + per, seen)
    mask = low + rt < high
    k = tl.zeros((BT, DB), dot_type)
    v = tl.zeros((BT, DB), dot_type)
    if EARLY:
        k, v, mask = _load_tokens(
            keys, values, key_scales, value_scales, table, low + rt, high, head, first, num_sinks,
            key_base, value_base, key_scale_base, value_scale_base, rd, dot_type, PAGE, D, EVEN, WINDOW,
        )  # fmt: skip
    # A rotated channel's partner is HALF channels away; channels from ROTATED on pass through.
    pair = tl.where(rd < HALF, rd + HALF, tl.where(rd < ROTATED, rd - HALF, rd))
    cos = tl.full((DB,), 1.0, tl.float32)
    sin = tl.zeros((DB,), tl.float32)
    if ROTATED > 0:
        angle = angles + position * ROTATED + tl.where(rd < HALF, rd, rd - HALF)
        cos = tl.load(angle, mask=rd < ROTATED, other=1.0)
        sin = tl.load(angle + HALF, mask=rd < ROTATED, other=0.0)
        sin = tl.where(rd < HALF, -sin, sin)
    gain = tl.full((DB,), 1.0, tl.float32)
    gain_pair = gain
    if NORM:
        gain = tl.load(q_gain + rd, mask=in_d, other=0.0).to(tl.float32)
        gain_pair = tl.load(q_gain + pair, mask=in_d, other=0.0).to(tl.float32)
    wait(PDL)
    own = qkv + request.to(tl.int64) * qkv_stride
    heads = (head * G + rg) * D
    inside = in_g[:, None] & in_d[None, :]
    q = tl.load(own + heads[:, None] + rd[None, :], mask=inside, other=0.0).to(tl.float32)
    q_pair = tl.load(own + heads[:, None] + pair[None, :], mask=inside, other=0.0).to(tl.float32)
    factor = tl.full((GROUP,), 1.0, tl.float32)
    if NORM:
        factor = 1.0 / tl.sqrt(tl.sum(q * q, 1) / D + eps)
    q = _rotated(q, q_pair, gain[None, :], gain_pair[None, :], cos[None, :], sin[None, :], factor[:, None], NORM)
    if BALANCED:
        q *= tl.load(balance + head * D + rd, mask=in_d, other=1.0)[None, :]
    q *= scale
    q_dot = q.to(dot_type)
    top = tl.full((GROUP,), UNSEEN, tl.float32)
    total = tl.zeros((GROUP,), tl.float32)
    acc = tl.zeros((GROUP, DB), tl.float32)
    if NEW and split == SPLITS - 1 and length > 0:
        own_entry = tl.load(table + position // PAGE)
        k_own = own + (H + head) * D
        new_k = tl.load(k_own + rd, mask=in_d, other=0.0).to(tl.float32)
        k_pair = tl.load(k_own + pair, mask=in_d, other=0.0).to(tl.float32)
        new_v = tl.load(own + (H + HK + head) * D + rd, mask=in_d, other=0.0).to(tl.float32)
        k_factor = 1.0
        if NORM:
            k_factor = 1.0 / tl.sqrt(tl.sum(new_k * new_k) / D + eps)
            gain = tl.load(k_gain + rd, mask=in_d, other=0.0).to(tl.float32)
            gain_pair = tl.load(k_gain + pair, mask=in_d, other=0.0).to(tl.float32)
        new_k = _rotated(new_k, k_pair, gain, gain_pair, cos, sin, k_factor, NORM)
        if BALANCED:
            new_k /= tl.load(balance + head * D + rd, mask=in_d, other=1.0)
        new_k = store_token(
            keys, key_scales, own_entry, position, head, key_base, key_scale_base, new_k, rd, PAGE, D, DB
        )
        new_v = store_token(
            values, value_scales, own_entry, position, head, value_base, value_scale_base, new_v, rd, PAGE, D, DB
        )
        top = _capped(tl.sum(q * new_k[None, :], 1), softcap, SOFTCAP)
        total = tl.full((GROUP,), 1.0, tl.float32)
        acc += new_v[None, :]
    if EARLY:
        top, total, acc = _attend(q_dot, k, v, mask, top, total, acc, softcap, SOFTCAP)
    for start in tl.range(low + BT if EARLY else low, high, BT, num_stages=STAGES):
        k, v, mask = _load_tokens(
            keys, values, key_scales, value_scales, table, start + rt, high, head, first, num_sinks,
            key_base, value_base, key_scale_base, value_scale_base, rd, dot_type, PAGE, D, EVEN, WINDOW,
        )  # fmt: skip
        top, total, acc = _attend(q_dot, k, v, mask, top, total, acc, softcap, SOFTCAP)
    if SINKS and split == 0:
        sink = tl.load(sinks + head * G + rg, mask=in_g, other=UNSEEN)
        higher = tl.maximum(top, sink)
        fade = tl.exp(top - higher)
        total = total * fade + tl.exp(sink - higher)
        acc = acc * fade[:, None]
        top = higher
    target = out + request.to(tl.int64) * (H * D)
    if SPLITS == 1:
        acc = tl.where(total[:, None] > 0, acc / total[:, None], 0.0)
        if PACKED:
            _pack_heads(acc, packed, packed_bytes, head * G, G, H * D // 32, GROUP, D)
        else:
            tl.store(target + heads[:, None] + rd[None, :], acc.to(dot_type), mask=inside)
    else:
        part = (request * H + head * G + rg) * SPLITS + split
        tl.store(partial + part[:, None].to(tl.int64) * D + rd[None, :], acc, mask=inside)
        tl.store(tops + part, top, mask=in_g)
        tl.store(totals + part, total, mask=in_g)
        tl.debug_barrier()
        counter = counters + request * HK + head
        if tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == SPLITS - 1:
            tl.store(counter, 0)
            for g in tl.static_range(0, G, JOINED):
                _combine(
                    partial, tops, totals, target, packed, packed_bytes, request * H, head * G + g, G - g,
                    H, D, DB, JOINED, SPLITS, PACKED,
                )  # fmt: skip


@triton.jit
def _combine(
    partial, tops, totals, target, packed, packed_bytes, first, head, left,
    H: tl.constexpr, D: tl.constexpr, DB: tl.constexpr, HEADS: tl.constexpr, SPLITS: tl.constexpr,
    PACKED: tl.constexpr,
):  # fmt: skip
    """Combine the parts that SPLITS programs left of the next HEADS heads, of which `left` exist; write the results."""
    rd = tl.arange(0, DB)
    rh = tl.arange(0, HEADS)
    rs = tl.arange(0, triton.next_power_of_2(SPLITS))
    part = (first + head + rh)[:, None] * SPLITS + rs[None, :]
    in_h = rh < left
    known = in_h[:, None] & (rs < SPLITS)[None, :]
    at = partial + part[:, :, None].to(tl.int64) * D + rd[None, None, :]
    top = tl.load(tops + part, mask=known, other=UNSEEN, cache_modifier=".cg")
    parts_total = tl.load(totals + part, mask=known, other=0.0, cache_modifier=".cg")
    parts = tl.load(at, mask=known[:, :, None] & (rd < D)[None, None, :], other=0.0, cache_modifier=".cg")
    weight = tl.exp(top - tl.max(top, 1)[:, None])
    total = tl.sum(weight * parts_total, 1)
    acc = tl.sum(parts * weight[:, :, None], 1)
    acc = tl.where(total[:, None] > 0, acc / total[:, None], 0.0)
    if PACKED:
        _pack_heads(acc, packed, packed_bytes, head, left, H * D // 32, HEADS, D)
    else:
        inside = in_h[:, None] & (rd < D)[None, :]
        tl.store(target + (head + rh)[:, None] * D + rd[None, :], acc.to(target.dtype.element_ty), mask=inside)


@triton.jit
def _pack_heads(
    values, packed, packed_bytes, head, left, BLOCKS: tl.constexpr, HEADS: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """Pack the results [HEADS, D] of the heads from `head` on, of which `left` exist."""
    EACH: tl.constexpr = D // 32
    block = tl.arange(0, HEADS * EACH)
    blocks = tl.reshape(values, (HEADS * EACH, 32))
    store_packed(blocks, blocks, head * EACH + block, block < left * EACH, packed, packed_bytes, BLOCKS, False)
