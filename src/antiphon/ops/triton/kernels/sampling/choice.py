"""Sampling of a token from each row of logits: the likeliest, or by Gumbel-max with Philox noise.

With FILTERED, rows may have top-k, top-p or min-p. Without FILTERED, the arguments of filters are None.
"""

from __future__ import annotations

import triton
import triton.language as tl

from antiphon.ops.triton.kernels.dependent_launch import release, wait
from antiphon.ops.triton.kernels.sampling.filters import GROUP, LOWEST, first_kept, load_logits
from antiphon.ops.triton.kernels.sampling.noise import gumbel


@triton.jit
def survey_blocks(
    logits, temperature, seed, index, rows, offsets, best, tokens, tops, sums, maxima,
    stride, parameter_stride, long_stride, V, num_blocks,
    BLOCK: tl.constexpr, FILTERED: tl.constexpr, CHAINED: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """Write the best token of each block of BLOCK tokens of each row of logits, and its noisy logit.

    With filters, also write the largest logit without noise (`tops`), the sum of e^(logit - top), and the largest logit
    of each group of GROUP tokens, in maxima [R, num_blocks * BLOCK / GROUP]. All logits are divided by the temperature;
    a temperature of 0 divides and adds nothing. The parameters of batch index r are in row rows[r] of their columns; a
    negative row is padding. With CHAINED, the token to sample is `offsets` past the row's next token.
    """
    release(PDL)
    block, slot = tl.program_id(0), tl.program_id(1)
    row = tl.load(rows + slot).to(tl.int64)
    wait(PDL)
    if row >= 0:
        heat = tl.load(temperature + row * parameter_stride)
        own_seed = tl.load(seed + row * long_stride)
        own_index = tl.load(index + row * long_stride)
        if CHAINED:
            own_index += tl.load(offsets + slot)
        token = block * BLOCK + tl.arange(0, BLOCK)
        inside = token < V
        x = load_logits(logits + slot.to(tl.int64) * stride, token, inside)
        noisy = x
        if heat > 0:
            x = x * (1.0 / heat)
            counter = (block * (BLOCK // 4) + tl.arange(0, BLOCK // 4)).to(tl.uint32)
            noisy = x + gumbel(own_seed, own_index, counter)
        value, at = tl.max(noisy, 0, return_indices=True, return_indices_tie_break_left=True)
        where = slot * num_blocks + block
        tl.store(best + where, value)
        tl.store(tokens + where, block * BLOCK + at)
        if FILTERED:
            top = tl.max(x, 0)
            tl.store(tops + where, top)
            tl.store(sums + where, tl.sum(tl.where(x > LOWEST, tl.exp(x - top), 0.0), 0))
            largest = tl.max(tl.reshape(x, (BLOCK // GROUP, GROUP)), 1)
            tl.store(maxima + where.to(tl.int64) * (BLOCK // GROUP) + tl.arange(0, BLOCK // GROUP), largest)


@triton.jit
def choose_tokens(
    logits, temperature, top_k, top_p, min_p, seed, index, rows, given, offsets, best, block_tokens, tops, sums,
    maxima, listed, last_token, length, drawn,
    stride, parameter_stride, long_stride, V, num_blocks, num_groups,
    BLOCKS: tl.constexpr, GROUPS: tl.constexpr, CHUNK: tl.constexpr, FILTERED: tl.constexpr, CHAINED: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """Write the token of each row from the survey of its blocks; rows without a filter take the best of all blocks.

    The token becomes the row's last token, and the row grows by one. `listed` int32 [R, GROUPS] is scratch. With
    CHAINED, rows whose token was `given` stay unchanged, and the token to sample is `offsets` past the row's next
    token.
    """
    release(PDL)
    slot = tl.program_id(0).to(tl.int64)
    wait(PDL)
    row = tl.load(rows + slot).to(tl.int64)
    if row >= 0:
        blocks = tl.arange(0, BLOCKS)
        inside = blocks < num_blocks
        values = tl.load(best + slot * num_blocks + blocks, mask=inside, other=LOWEST)
        _, at = tl.max(values, 0, return_indices=True, return_indices_tie_break_left=True)
        token = tl.load(block_tokens + slot * num_blocks + at)
        own_index = tl.load(index + row * long_stride)
        is_own = row >= 0
        if CHAINED:
            own_index += tl.load(offsets + slot)
            is_own = tl.load(given + slot) < 0
        if FILTERED:
            heat = tl.load(temperature + row * parameter_stride)
            k = tl.load(top_k + row * parameter_stride)
            k = tl.where((k > 0) & (k < V), k, V)
            p = tl.load(top_p + row * parameter_stride)
            least = tl.load(min_p + row * parameter_stride)
            if (heat > 0) & ((k < V) | (p < 1) | (least > 0)):
                block_tops = tl.load(tops + slot * num_blocks + blocks, mask=inside, other=LOWEST)
                top = tl.max(block_tops, 0)
                block_sums = tl.load(sums + slot * num_blocks + blocks, mask=inside, other=0.0)
                total = tl.sum(tl.where(block_tops > LOWEST, block_sums * tl.exp(block_tops - top), 0.0), 0)
                groups = tl.arange(0, GROUPS)
                largest = tl.load(maxima + slot * num_groups + groups, mask=groups < num_groups, other=LOWEST)
                own_seed = tl.load(seed + row * long_stride)
                token = first_kept(
                    logits + slot * stride, 1.0 / heat, own_seed, own_index, k, p, least, token, largest, top, total,
                    listed + slot * GROUPS, V, GROUPS, CHUNK,
                )  # fmt: skip
        tl.store(drawn + slot, token)
        if is_own:
            tl.store(last_token + row * parameter_stride, token)
            tl.store(length + row * parameter_stride, tl.load(length + row * parameter_stride) + 1)
            tl.store(index + row * long_stride, own_index + 1)
