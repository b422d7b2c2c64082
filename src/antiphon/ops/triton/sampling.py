"""Sampling of a token from each row of logits, without a sort; the host never reads the rows."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from antiphon.ops.triton.launch import card, empty
from antiphon.ops.triton.program.choice import ChoiceColumns, choice_launches
from antiphon.ops.types import SamplingRows


def sample(logits: Tensor, rows: SamplingRows, logprobs: bool = True) -> tuple[Tensor, Tensor | None]:
    logits = logits.float()
    if logits.stride(-1) != 1:
        logits = logits.contiguous()
    tokens = _draw(logits, rows).long()
    if not logprobs:
        return tokens, None
    return tokens, logits.log_softmax(-1).gather(-1, tokens[:, None]).squeeze(-1)


def _draw(logits: Tensor, rows: SamplingRows) -> Tensor:
    """Return int32 [R]: the likeliest token of each greedy row, a sampled token of each other row."""
    (count, vocabulary), device = logits.shape, logits.device
    drawn = torch.empty(count, dtype=torch.int32, device=device)
    if not count:
        return drawn
    indices = torch.arange(count, dtype=torch.int32, device=device)
    temperature, top_k, top_p, min_p, seed = (
        column.contiguous() for column in (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.seed)
    )
    index = rows.index.clone()  # the kernel increments the index, as in the rows of running requests
    last, length = torch.zeros(2, count, dtype=torch.int32, device=device)
    columns = ChoiceColumns(temperature, top_k, top_p, min_p, seed, index, last, length)
    take = partial(empty, device)
    for launch in choice_launches(
        logits, count, vocabulary, columns, indices, drawn, take, filtered=True, early=card(device).dependent_launch
    ):
        launch()
    return drawn
