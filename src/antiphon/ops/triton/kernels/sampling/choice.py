"""The token of each row of logits: the likeliest, or one drawn by Gumbel-max with Philox noise."""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.sampling.noise import gumbel

LOWEST = tl.constexpr(float("-inf"))


@triton.jit
def best_in_blocks(
    logits, temperature, seed, index, rows, best, tokens,
    stride, parameter_stride, long_stride, V, num_blocks,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """For each block of BLOCK tokens of each row of logits: its best token and that one's noisy logit.

    The parameters of the request in place r are at row rows[r] of their columns; a negative row is padding.
    """
    release(PDL)
    block, place = tl.program_id(0), tl.program_id(1)
    row = tl.load(rows + place).to(tl.int64)
    wait(PDL)
    if row >= 0:
        heat = tl.load(temperature + row * parameter_stride)
        own_seed = tl.load(seed + row * long_stride)
        own_index = tl.load(index + row * long_stride)
        token = block * BLOCK + tl.arange(0, BLOCK)
        inside = token < V
        x = tl.load(logits + place.to(tl.int64) * stride + token, mask=inside, other=LOWEST).to(tl.float32)
        x = tl.where(x == x, x, LOWEST)  # else the largest of a row with NaN could be one beyond the vocabulary
        if heat > 0:
            counter = (block * (BLOCK // 4) + tl.arange(0, BLOCK // 4)).to(tl.uint32)
            x = x * (1.0 / heat) + gumbel(own_seed, own_index, counter)
        top, at = tl.max(x, 0, return_indices=True, return_indices_tie_break_left=True)
        tl.store(best + place * num_blocks + block, top)
        tl.store(tokens + place * num_blocks + block, block * BLOCK + at)


@triton.jit
def best_of_rows(
    best, block_tokens, rows, last_token, length, index, drawn,
    parameter_stride, long_stride, num_blocks,
    BLOCKS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """The token of each row from those of its blocks. It becomes the row's last token, and the row grows by one."""
    release(PDL)
    place = tl.program_id(0)
    wait(PDL)
    row = tl.load(rows + place).to(tl.int64)
    if row >= 0:
        blocks = tl.arange(0, BLOCKS)
        inside = blocks < num_blocks
        values = tl.load(best + place * num_blocks + blocks, mask=inside, other=LOWEST)
        _, at = tl.max(values, 0, return_indices=True, return_indices_tie_break_left=True)
        token = tl.load(block_tokens + place * num_blocks + at)
        tl.store(drawn + place, token)
        tl.store(last_token + row * parameter_stride, token)
        tl.store(length + row * parameter_stride, tl.load(length + row * parameter_stride) + 1)
        tl.store(index + row * long_stride, tl.load(index + row * long_stride) + 1)
