"""Inputs of a step with chunks of prompts, from its packed words and the rows of running requests."""

from __future__ import annotations

import triton
import triton.language as tl

#: Token ids that stand for a row's last token and for padding; the same as in `executor.device.batch`.
LAST_TOKEN = tl.constexpr(-1)
PADDING = tl.constexpr(-2)


@triton.jit
def prompt_inputs(
    given, positions, token_rows, rows, grown, last_token, length, table, token_ids, slots, tokens, requests, stride,
    PAGE: tl.constexpr, FIRST: tl.constexpr, REQUESTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the slot of each token in the pages of a cache group; padding has slot -1.

    The FIRST group's launch also writes the token ids (-1 for padding), and adds each request's tokens in the step to
    its row's length. REQUESTS is not less than `requests`. Rows are `stride` words apart.
    """
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < tokens
    token = tl.load(given + index, mask=inside, other=-2)
    row = tl.load(token_rows + index, mask=inside, other=0).to(tl.int64)
    position = tl.load(positions + index, mask=inside, other=0)
    used = token != PADDING
    entry = tl.load(table + row * stride + position // PAGE, mask=used, other=0).to(tl.int64)
    tl.store(slots + index, tl.where(used, entry * PAGE + position % PAGE, -1), mask=inside)
    if FIRST:
        is_last = token == LAST_TOKEN
        last = tl.load(last_token + row * stride, mask=is_last, other=0)
        tl.store(token_ids + index, tl.where(is_last, last, tl.maximum(token, -1)), mask=inside)
        if tl.program_id(0) == 0:
            request = tl.arange(0, REQUESTS)
            more = tl.load(grown + request, mask=request < requests, other=0)
            own = tl.load(rows + request, mask=request < requests, other=0).to(tl.int64)
            tl.atomic_add(length + own * stride, more, mask=more > 0)
