"""Logit edits, with one program per row, and counts of sampled tokens."""

from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(float("-inf"))


@triton.jit
def _keep_allowed(logits, ids, first, last, kept, V, BLOCK: tl.constexpr):
    """Keep the logits of ids[first:last] and set all others to -inf; `kept` is scratch for the kept logits."""
    lanes = tl.arange(0, BLOCK)
    for begin in range(first, last, BLOCK):
        at = begin + lanes
        token = tl.load(ids + at, mask=at < last, other=0)
        tl.store(kept + at, tl.load(logits + token, mask=at < last, other=0.0), mask=at < last)
    tl.debug_barrier()
    for begin in range(0, V, BLOCK):
        tl.store(logits + begin + lanes, tl.full((BLOCK,), LOWEST, tl.float32), mask=begin + lanes < V)
    tl.debug_barrier()
    for begin in range(first, last, BLOCK):
        at = begin + lanes
        token = tl.load(ids + at, mask=at < last, other=0)
        tl.store(logits + token, tl.load(kept + at, mask=at < last, other=0.0), mask=at < last)
    tl.debug_barrier()


@triton.jit
def restrict_logits(
    logits, masks, mask_index, allowed_start, allowed_ids, kept, banned_start, banned_ids, spans,
    stride, mask_stride, V,
    MASKS: tl.constexpr, ALLOWED: tl.constexpr, BANNED: tl.constexpr, SPANS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Set the logits to -inf that masks, allowed and banned tokens, spans or the timestamp rule remove."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    lanes = tl.arange(0, BLOCK)
    if ALLOWED:
        first, last = tl.load(allowed_start + row), tl.load(allowed_start + row + 1)
        if first < last:
            _keep_allowed(logits, allowed_ids, first, last, kept, V, BLOCK)
    if BANNED:
        last = tl.load(banned_start + row + 1)
        for begin in range(tl.load(banned_start + row), last, BLOCK):
            at = begin + lanes
            token = tl.load(banned_ids + at, mask=at < last, other=0)
            tl.store(logits + token, tl.full((BLOCK,), LOWEST, tl.float32), mask=at < last)
        tl.debug_barrier()
    mask = -1
    if MASKS:
        mask = tl.load(mask_index + row)
    keep_from, keep_until, gap_from, gap_until, stamps = 0, V, 0, 0, -1
    if SPANS:
        keep_from, keep_until = tl.load(spans + 5 * row), tl.load(spans + 5 * row + 1)
        gap_from, gap_until = tl.load(spans + 5 * row + 2), tl.load(spans + 5 * row + 3)
        stamps = tl.load(spans + 5 * row + 4)
    if (mask >= 0) | (keep_from > 0) | (keep_until < V) | (gap_from < gap_until) | (stamps >= 0):
        text = tl.full((), LOWEST, tl.float32)  # largest logit of tokens before the timestamps
        top = tl.full((), LOWEST, tl.float32)  # largest logit of timestamps; `total` sums their e^(logit - top)
        total = tl.zeros((), tl.float32)
        for begin in range(0, V, BLOCK):
            token = begin + lanes
            inside = token < V
            x = tl.load(logits + token, mask=inside, other=LOWEST)
            dropped = (token < keep_from) | (token >= keep_until) | ((token >= gap_from) & (token < gap_until))
            if MASKS:
                where = tl.maximum(mask, 0).to(tl.int64) * mask_stride + token // 8
                byte = tl.load(masks + where, mask=token < tl.where(mask >= 0, V, 0), other=255).to(tl.int32)
                dropped |= ((byte >> (token % 8)) & 1) == 0
            x = tl.where(dropped, LOWEST, x)
            tl.store(logits + token, x, mask=inside & dropped)
            if SPANS:
                is_text = (token < stamps) | (stamps < 0)
                text = tl.maximum(text, tl.max(tl.where(is_text, x, LOWEST), 0))
                higher = tl.maximum(top, tl.max(tl.where(is_text, LOWEST, x), 0))
                floor = tl.where(higher > LOWEST, higher, 0.0)
                total = total * tl.exp(top - floor) + tl.sum(tl.where(is_text, 0.0, tl.exp(x - floor)), 0)
                top = higher
        if SPANS:
            end = tl.where((stamps >= 0) & (top + tl.log(total) > text), tl.minimum(stamps, V), 0)
            tl.debug_barrier()
            for begin in range(0, end, BLOCK):
                at = begin + lanes
                tl.store(logits + at, tl.full((BLOCK,), LOWEST, tl.float32), mask=at < end)


@triton.jit
def shift_logits(
    logits, bias_start, bias_ids, bias, penalties, slots, ids, counts, num_ids,
    stride, capacity,
    BIAS: tl.constexpr, PENALTIES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the bias (-inf removes a token), and apply penalties to the tokens in each row's slot."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    lanes = tl.arange(0, BLOCK)
    if BIAS:
        last = tl.load(bias_start + row + 1)
        for begin in range(tl.load(bias_start + row), last, BLOCK):
            inside = begin + lanes < last
            token = tl.load(bias_ids + begin + lanes, mask=inside, other=0)
            value = tl.load(bias + begin + lanes, mask=inside, other=0.0)
            x = tl.load(logits + token, mask=inside, other=0.0)
            tl.store(logits + token, tl.where(value == LOWEST, LOWEST, x + value), mask=inside)
        tl.debug_barrier()
    if PENALTIES:
        slot = tl.load(slots + row).to(tl.int64)
        if slot >= 0:
            repetition = tl.load(penalties + 3 * row)
            presence, frequency = tl.load(penalties + 3 * row + 1), tl.load(penalties + 3 * row + 2)
            last = tl.load(num_ids + slot)
            for begin in range(0, last, BLOCK):
                inside = begin + lanes < last
                token = tl.load(ids + slot * capacity + begin + lanes, mask=inside, other=0)
                times = tl.load(counts + slot * capacity + begin + lanes, mask=inside, other=0)
                x = tl.load(logits + token, mask=inside, other=0.0)
                x = tl.where(x > 0, x / repetition, x * repetition)
                x = tl.where(times > 0, x - (presence + frequency * times.to(tl.float32)), x)
                tl.store(logits + token, x, mask=inside)


@triton.jit
def count_drawn(ids, counts, num_ids, slots, tokens, capacity, BLOCK: tl.constexpr):
    """Count tokens[r] in slots[r], unless the slot is negative; the slots of a call must differ."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row).to(tl.int64)
    if slot >= 0:
        token = tl.load(tokens + row).to(tl.int32)
        last = tl.load(num_ids + slot)
        entry = last
        for begin in range(0, last, BLOCK):
            at = begin + tl.arange(0, BLOCK)
            known = tl.load(ids + slot * capacity + at, mask=at < last, other=-1)
            entry = tl.minimum(entry, tl.min(tl.where(known == token, at, last), 0))
        times = 0
        if entry < last:
            times = tl.load(counts + slot * capacity + entry)
        tl.store(ids + slot * capacity + entry, token)
        tl.store(counts + slot * capacity + entry, times + 1)
        if entry == last:
            tl.store(num_ids + slot, last + 1)


@triton.jit
def _ordered(x):
    """Return integers in the order of the floats x, which must not be negative."""
    return x.to(tl.int32, bitcast=True)


@triton.jit
def _near(logits, heat, begin, top, log_total, entropy, V, BLOCK: tl.constexpr):
    """Return tokens, their probabilities, and the distance of their surprise from the entropy as an ordered integer."""
    token = begin + tl.arange(0, BLOCK)
    x = tl.load(logits + token, mask=token < V, other=LOWEST) / heat
    logprob = x - top - log_total
    distance = tl.where(token < V, tl.abs(-logprob - entropy), float("inf"))
    return token, tl.exp(logprob), _ordered(distance)


@triton.jit
def keep_typical(logits, typical, stride, V, BLOCK: tl.constexpr):
    """Keep the tokens of each row whose surprise is nearest to the entropy, up to the row's typical_p in total.

    A search over the bits of the distance finds the largest distance that is kept; of tokens at that distance, those
    with the lowest ids are kept.
    """
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    lanes = tl.arange(0, BLOCK)
    typical_p = tl.maximum(tl.load(typical + 2 * row), 1e-38)  # keep at least the nearest token
    heat = tl.load(typical + 2 * row + 1)
    if (typical_p < 1) & (heat > 0):
        top = tl.full((), LOWEST, tl.float32)
        for begin in range(0, V, BLOCK):
            x = tl.load(logits + begin + lanes, mask=begin + lanes < V, other=LOWEST)
            top = tl.maximum(top, tl.max(x / heat, 0))
        total, moment = tl.zeros((), tl.float32), tl.zeros((), tl.float32)
        for begin in range(0, V, BLOCK):
            x = tl.load(logits + begin + lanes, mask=begin + lanes < V, other=LOWEST) / heat - top
            share = tl.exp(x)
            total += tl.sum(share, 0)
            moment += tl.sum(tl.where(share > 0, share * x, 0.0), 0)
        log_total = tl.log(total)
        entropy = log_total - moment / total
        # Find the largest distance whose nearer tokens do not reach typical_p.
        low, high = tl.zeros((), tl.int32), tl.full((), 0x7F800000, tl.int32)
        while low < high:
            middle = low + (high - low + 1) // 2
            mass = tl.zeros((), tl.float32)
            for begin in range(0, V, BLOCK):
                _, share, distance = _near(logits, heat, begin, top, log_total, entropy, V, BLOCK)
                mass += tl.sum(tl.where(distance < middle, share, 0.0), 0)
            low = tl.where(mass < typical_p, middle, low)
            high = tl.where(mass < typical_p, high, middle - 1)
        mass = tl.zeros((), tl.float32)
        for begin in range(0, V, BLOCK):
            _, share, distance = _near(logits, heat, begin, top, log_total, entropy, V, BLOCK)
            mass += tl.sum(tl.where(distance < low, share, 0.0), 0)
        for begin in range(0, V, BLOCK):
            token, share, distance = _near(logits, heat, begin, top, log_total, entropy, V, BLOCK)
            equal = tl.where(distance == low, share, 0.0)
            before = mass + tl.cumsum(equal, 0) - equal
            dropped = (distance > low) | ((distance == low) & (before >= typical_p))
            tl.store(logits + token, tl.full((BLOCK,), LOWEST, tl.float32), mask=dropped & (token < V))
            mass += tl.sum(equal, 0)
