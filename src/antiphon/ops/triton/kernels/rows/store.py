"""The rows of running requests on the device: applying changes, and the inputs of a decode step read from them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scatter_words(store, changes, count, BLOCK: tl.constexpr):
    """store[changes[i, 0]] = changes[i, 1] for `count` pairs of 32-bit words, which have different places."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    place = tl.load(changes + 2 * at, mask=inside, other=0)
    tl.store(store + place, tl.load(changes + 2 * at + 1, mask=inside, other=0), mask=inside)


@triton.jit
def decode_inputs(
    rows, last_token, length, cross_tokens, adapter, token_ids, positions, seq_lens, cross_lens, table_rows, adapters,
    count, stride, BLOCK: tl.constexpr,
):  # fmt: skip
    """A step of one token for each of `count` places: token, position and lengths from the row of each.

    A negative row is padding: token -1, length 0, row 0 of the table.
    """
    place = tl.arange(0, BLOCK)
    inside = place < count
    row = tl.load(rows + place, mask=inside, other=-1)
    used = inside & (row >= 0)
    at = tl.where(used, row, 0).to(tl.int64) * stride
    past = tl.load(length + at, mask=used, other=0)
    tl.store(token_ids + place, tl.load(last_token + at, mask=used, other=-1), mask=inside)
    tl.store(positions + place, past, mask=inside)
    tl.store(seq_lens + place, tl.where(used, past + 1, 0), mask=inside)
    tl.store(cross_lens + place, tl.load(cross_tokens + at, mask=used, other=0), mask=inside)
    tl.store(table_rows + place, tl.where(used, row, 0), mask=inside)
    tl.store(adapters + place, tl.load(adapter + at, mask=used, other=-1), mask=inside)


@triton.jit
def grow_rows(rows, length, count, stride, BLOCK: tl.constexpr):
    """The rows of `count` places are one token longer; negative ones are padding."""
    place = tl.arange(0, BLOCK)
    row = tl.load(rows + place, mask=place < count, other=-1)
    used = row >= 0
    at = length + tl.where(used, row, 0).to(tl.int64) * stride
    tl.store(at, tl.load(at, mask=used, other=0) + 1, mask=used)
