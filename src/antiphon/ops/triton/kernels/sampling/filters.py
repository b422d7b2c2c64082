"""Sampling from a row of logits under top-k, top-p and min-p, without a sort of the vocabulary.

The kept tokens come first in the order by logit, then by id. So the token with the largest noisy logit of all is the
sample if it is kept. If not, no token after it in that order is kept either, and the search continues among the tokens
before it. Whether a token is kept follows from the number and the mass of the tokens before it, which are only in
groups whose largest logit is at least as large. A logit that is NaN counts as -inf. `scale` is 1 / temperature; logits
are multiplied by it here exactly as in the survey of the blocks, so that both compute the same numbers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.sampling.noise import gumbel

LOWEST = tl.constexpr(float("-inf"))
#: Tokens per group; the survey keeps the largest logit of each group.
GROUP = tl.constexpr(64)


@triton.jit
def load_logits(logits, token, inside):
    """Return the logits of tokens; -inf for NaN, and for tokens that are not inside."""
    x = tl.load(logits + token, mask=inside, other=LOWEST).to(tl.float32)
    return tl.where(x == x, x, LOWEST)


@triton.jit
def _ordered(x):
    """Return integers in the order of the floats x."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.int64)


@triton.jit
def _float_of(ordered):
    bits = ordered.to(tl.int32)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit
def _list_groups(largest, least, listed, GROUPS: tl.constexpr):
    """Write the indices of the groups whose largest logit is at least `least` to `listed`; return their number."""
    chosen = largest >= least
    at = tl.cumsum(chosen.to(tl.int32), 0) - 1
    tl.debug_barrier()  # other threads may still read the list
    tl.store(listed + at, tl.arange(0, GROUPS), mask=chosen)
    tl.debug_barrier()
    return tl.sum(chosen.to(tl.int32), 0)


@triton.jit
def _load_listed(logits, scale, listed, first, count, V, CHUNK: tl.constexpr):
    """Return the tokens of CHUNK listed groups and their scaled logits; -1 and -inf beyond list or vocabulary."""
    lane = tl.arange(0, CHUNK * GROUP)
    entry = first + lane // GROUP
    token = tl.load(listed + entry, mask=entry < count, other=0) * GROUP + lane % GROUP
    inside = (entry < count) & (token < V)
    x = load_logits(logits, token, inside) * scale
    return tl.where(inside, token, -1), x


@triton.jit
def _is_before(x, token, limit, limit_token):
    return (token >= 0) & ((x > limit) | ((x == limit) & (token < limit_token)))


@triton.jit
def _before(logits, scale, listed, count, limit, limit_token, top, V, CHUNK: tl.constexpr):
    """Return the number of listed tokens that come before the limit, and the sum of their e^(logit - top)."""
    number = tl.zeros((), tl.int32)
    mass = tl.zeros((), tl.float32)
    for first in range(0, count, CHUNK):
        token, x = _load_listed(logits, scale, listed, first, count, V, CHUNK)
        before = _is_before(x, token, limit, limit_token)
        number += tl.sum(before.to(tl.int32), 0)
        mass += tl.sum(tl.where(before, tl.exp(x - top), 0.0), 0)
    return number, mass


@triton.jit
def _draw_before(logits, scale, seed, index, listed, count, limit, limit_token, V, CHUNK: tl.constexpr):
    """Return the listed token before the limit with the largest noisy logit, and its scaled logit."""
    best = tl.full((), LOWEST, tl.float32)
    drawn = tl.zeros((), tl.int32)
    for first in range(0, count, CHUNK):
        token, x = _load_listed(logits, scale, listed, first, count, V, CHUNK)
        quad = tl.arange(0, CHUNK * GROUP // 4)
        entry = first + quad // (GROUP // 4)
        group = tl.load(listed + entry, mask=entry < count, other=0)
        counter = (group * (GROUP // 4) + quad % (GROUP // 4)).to(tl.uint32)
        before = _is_before(x, token, limit, limit_token)
        noisy = tl.where(before, x + gumbel(seed, index, counter), LOWEST)
        value, at = tl.max(noisy, 0, return_indices=True, return_indices_tie_break_left=True)
        found = tl.sum(tl.where(tl.arange(0, CHUNK * GROUP) == at, token, 0), 0)
        drawn = tl.where(value > best, found, drawn)
        best = tl.maximum(best, value)
    return drawn, load_logits(logits, drawn, drawn < V) * scale


@triton.jit
def _reached_by(largest, top, k):
    """Return a value that at least k groups reach, so that the k-th largest logit is no smaller.

    The search ends at the first value that at most 1.5 * k groups reach.
    """
    low = _ordered(tl.full((), LOWEST, tl.float32))
    high = _ordered(top)
    while low < high:
        middle = low + (high - low + 1) // 2
        number = tl.sum((largest >= _float_of(middle)).to(tl.int32), 0)
        low = tl.where(number >= k, middle, low)
        high = tl.where(number >= k, high, middle - 1)
        high = tl.where((number >= k) & (number <= k + k // 2), low, high)
    return _float_of(low)


@triton.jit
def _mass_of_largest(logits, scale, listed, count, least, top, k, V, CHUNK: tl.constexpr):
    """Return the sum of e^(logit - top) of the k largest logits, all of which are at least `least`."""
    low = _ordered(least)
    high = _ordered(top)
    while low < high:
        middle = low + (high - low + 1) // 2
        number, _ = _before(logits, scale, listed, count, _float_of(middle), V, top, V, CHUNK)  # logits >= middle
        low = tl.where(number >= k, middle, low)
        high = tl.where(number > k, high, tl.where(number == k, middle, middle - 1))
    last = _float_of(low)
    number, mass = _before(logits, scale, listed, count, last, 0, top, V, CHUNK)  # logits > last
    return mass + (k - number).to(tl.float32) * tl.where(last > LOWEST, tl.exp(last - top), 0.0)


@triton.jit
def first_kept(
    logits, scale, seed, index, k, p, min_p, token, largest, top, total, listed, V,
    GROUPS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Return the kept token with the largest noisy logit; `token` has the largest of all tokens."""
    least = tl.full((), LOWEST, tl.float32)
    if min_p > 0:
        least = top + tl.log(min_p) - 1e-3
    if k < V:
        reached = _reached_by(largest, top, k)
        least = tl.maximum(least, reached)
        if p < 1:
            count = _list_groups(largest, reached, listed, GROUPS)
            total = _mass_of_largest(logits, scale, listed, count, reached, top, k, V, CHUNK)
    x = load_logits(logits, token, token < V) * scale
    kept = False
    while not kept:
        limit = tl.where(x >= least, x, least)
        limit_token = tl.where(x >= least, token, V)
        count = _list_groups(largest, limit, listed, GROUPS)
        if x >= least:
            number, mass = _before(logits, scale, listed, count, limit, limit_token, top, V, CHUNK)
            likely = (x >= top) | (tl.exp(x - top) >= min_p)
            kept = (number == 0) | ((number < k) & ((p >= 1) | (mass < p * total)) & likely)
        if not kept:
            token, x = _draw_before(logits, scale, seed, index, listed, count, limit, limit_token, V, CHUNK)
            kept = not _is_before(x, token, limit, limit_token)  # no token is left before the limit: end the search
    return token
