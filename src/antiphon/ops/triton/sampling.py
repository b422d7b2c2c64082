"""The token of each row of logits, without a sort and without a word from the host about the rows."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.triton.kernels.sampling.filtered_choice import GROUP, choose_filtered, survey_blocks
from antiphon.ops.triton.launch import card, ceil_power
from antiphon.ops.types import SamplingRows

#: Tokens of a program that surveys the logits, and groups of tokens that one takes at a time where a row has a filter.
BLOCK, CHUNK = 1024, 32


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    logits = logits.float()
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    tokens = _draw(logits, rows).long()
    if not logprobs:
        return tokens, None
    return tokens, logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)


def _draw(logits: Tensor, rows: SamplingRows) -> Tensor:
    """int32 [R]: the likeliest token of greedy rows, a drawn one of the others."""
    (count, vocabulary), device = logits.shape, logits.device
    drawn = torch.empty(count, dtype=torch.int32, device=device)
    if not count:
        return drawn
    blocks = -(-vocabulary // BLOCK)
    groups = blocks * BLOCK // int(GROUP.value)
    best, tops, sums = torch.empty(3, count, blocks, device=device)
    tokens = torch.empty(count, blocks, dtype=torch.int32, device=device)
    maxima = torch.empty(count, groups, device=device)
    listed = torch.empty(count, ceil_power(groups), dtype=torch.int32, device=device)
    places = torch.arange(count, dtype=torch.int32, device=device)
    temperature, top_k, top_p, min_p, seed = (
        column.contiguous() for column in (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.seed)
    )
    index = rows.index.clone()  # the kernel counts it on, as it does in the rows of running requests
    last, length = torch.zeros(2, count, dtype=torch.int32, device=device)
    early = card(device).dependent_launch
    survey_blocks[(blocks, count)](
        logits, temperature, seed, index, places, best, tokens, tops, sums, maxima, logits.stride(0), 1, 1, vocabulary,
        blocks, BLOCK=BLOCK, PDL=early, num_warps=4, launch_pdl=early,
    )  # fmt: skip
    choose_filtered[(count,)](
        logits, temperature, top_k, top_p, min_p, seed, index, places, best, tokens, tops, sums, maxima, listed, last,
        length, drawn, logits.stride(0), 1, 1, vocabulary, blocks, groups,
        BLOCKS=ceil_power(blocks), GROUPS=ceil_power(groups), CHUNK=CHUNK, PDL=early, num_warps=8, launch_pdl=early,
    )  # fmt: skip
    return drawn
