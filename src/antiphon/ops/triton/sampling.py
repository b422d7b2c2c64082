"""The token of each row of logits, without a sort where no row asks for a part of the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.reference import sampling as reference
from antiphon.ops.triton.kernels.choice import best_in_blocks, best_of_rows
from antiphon.ops.triton.launch import card, ceil_power
from antiphon.ops.types import SamplingRows

#: Tokens of a program.
BLOCK = 1024


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    if bool(((rows.top_k > 0) | (rows.top_p < 1) | (rows.min_p > 0)).any()):
        tokens, found = reference.sample(logits, rows, logprobs)
        return tokens, found
    logits = logits.float()
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    tokens = _draw(logits, rows).long()
    if not logprobs:
        return tokens, None
    return tokens, logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)


def _draw(logits: Tensor, rows: SamplingRows) -> Tensor:
    """int32 [R]: the likeliest token of greedy rows, a drawn one of the others."""
    count, vocabulary = logits.shape
    drawn = torch.empty(count, dtype=torch.int32, device=logits.device)
    if not count:
        return drawn
    blocks = -(-vocabulary // BLOCK)
    best = torch.empty(count, blocks, device=logits.device)
    tokens = torch.empty(count, blocks, dtype=torch.int32, device=logits.device)
    places = torch.arange(count, dtype=torch.int32, device=logits.device)
    columns = [column.contiguous() for column in (rows.temperature, rows.seed, rows.index)]
    early = card(logits.device).dependent_launch
    best_in_blocks[(blocks, count)](
        logits, *columns, places, best, tokens, logits.stride(0), 1, 1, vocabulary, blocks,
        BLOCK=BLOCK, PDL=early, num_warps=4, launch_pdl=early,
    )  # fmt: skip
    last, length, index = (torch.zeros_like(places), torch.zeros_like(places), torch.zeros_like(columns[2]))
    best_of_rows[(count,)](
        best, tokens, places, last, length, index, drawn, 1, 1, blocks,
        BLOCKS=ceil_power(blocks), PDL=early, num_warps=4, launch_pdl=early,
    )  # fmt: skip
    return drawn
