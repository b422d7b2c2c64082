"""Rows of running requests on the device: changes to them, and the inputs that a decode step reads from them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scatter_words(store, changes, count, BLOCK: tl.constexpr):
    """Write store[changes[i, 0]] = changes[i, 1] for `count` pairs of 32-bit words, whose indices differ."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    index = tl.load(changes + 2 * at, mask=inside, other=0)
    tl.store(store + index, tl.load(changes + 2 * at + 1, mask=inside, other=0), mask=inside)


@triton.jit
def decode_inputs(
    rows, given, offsets, last_token, length, cross_tokens, adapter, token_ids, positions, seq_lens, cross_lens,
    table_rows, adapters, count, stride, BLOCK: tl.constexpr, CHAINED: tl.constexpr,
):  # fmt: skip
    """Write the inputs of a step with one token at each of `count` batch indices, from the rows of the requests.

    A negative row is padding: token -1, length 0, row 0 of the table. With CHAINED, a token in `given` (-1: none)
    replaces the row's last token, and positions are `offsets` past the row's length.
    """
    index = tl.arange(0, BLOCK)
    inside = index < count
    row = tl.load(rows + index, mask=inside, other=-1)
    used = inside & (row >= 0)
    at = tl.where(used, row, 0).to(tl.int64) * stride
    past = tl.load(length + at, mask=used, other=0)
    token = tl.load(last_token + at, mask=used, other=-1)
    if CHAINED:
        own = tl.load(given + index, mask=used, other=-1)
        past += tl.load(offsets + index, mask=used, other=0)
        token = tl.where(own >= 0, own, token)
    tl.store(token_ids + index, token, mask=inside)
    tl.store(positions + index, past, mask=inside)
    tl.store(seq_lens + index, tl.where(used, past + 1, 0), mask=inside)
    tl.store(cross_lens + index, tl.load(cross_tokens + at, mask=used, other=0), mask=inside)
    tl.store(table_rows + index, tl.where(used, row, 0), mask=inside)
    tl.store(adapters + index, tl.load(adapter + at, mask=used, other=-1), mask=inside)


@triton.jit
def row_slots(table_rows, positions, seq_lens, table, slots, count, stride, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Write the slot of each token in the pages of a cache group; padding, whose length is 0, has slot -1."""
    index = tl.arange(0, BLOCK)
    inside = index < count
    used = tl.load(seq_lens + index, mask=inside, other=0) > 0
    row = tl.load(table_rows + index, mask=used, other=0).to(tl.int64)
    position = tl.load(positions + index, mask=used, other=0)
    entry = tl.load(table + row * stride + position // PAGE, mask=used, other=0).to(tl.int64)
    tl.store(slots + index, tl.where(used, entry * PAGE + position % PAGE, -1), mask=inside)


@triton.jit
def grow_rows(rows, given, length, count, stride, BLOCK: tl.constexpr, CHAINED: tl.constexpr):
    """Make the rows at `count` batch indices one token longer; negative rows are padding.

    With CHAINED, rows whose token was `given` stay unchanged.
    """
    index = tl.arange(0, BLOCK)
    row = tl.load(rows + index, mask=index < count, other=-1)
    used = row >= 0
    if CHAINED:
        used = used & (tl.load(given + index, mask=index < count, other=-1) < 0)
    at = length + tl.where(used, row, 0).to(tl.int64) * stride
    tl.store(at, tl.load(at, mask=used, other=0) + 1, mask=used)
