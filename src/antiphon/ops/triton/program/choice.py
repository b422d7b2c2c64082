"""Launches that sample a token from each row of logits and write it to the request's row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from antiphon.ops.triton.kernel_launch import Launch
from antiphon.ops.triton.kernels.sampling.choice import choose_tokens, survey_blocks
from antiphon.ops.triton.kernels.sampling.filters import GROUP
from antiphon.ops.triton.launch import ceil_power

#: With filters: tokens per program that surveys the logits, and groups of tokens per iteration. BLOCK is the same for
#: any number of rows, so that the sum of a row's probabilities has the same bits in any batch.
BLOCK, CHUNK = 1024, 32


def plain_block(rows: int) -> int:
    """Return the tokens per program when no row has a filter; few rows need small blocks for enough programs."""
    return 512 if rows <= 8 else 2048


class Draw(Enum):
    """Sampling that a step does from its logits."""

    NOTHING = "nothing"  # the caller samples
    PLAIN = "plain"  # rows are greedy, or sample from all tokens
    FILTERED = "filtered"  # rows may have top-k, top-p and min-p


@dataclass(frozen=True)
class ChoiceColumns:
    """Columns of the requests' rows that sampling reads and writes.

    Consecutive rows are `long_stride` elements apart in columns of 64-bit values, `stride` elements in the others.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    seed: Tensor
    index: Tensor
    last_token: Tensor
    length: Tensor
    stride: int = 1
    long_stride: int = 1


def choice_launches(
    logits: Tensor, count: int, vocab_size: int, columns: ChoiceColumns, rows: Tensor, drawn: Tensor,
    take: Callable[[Sequence[int], torch.dtype], Tensor], filtered: bool, early: bool,
    chain: tuple[Tensor, Tensor] | None = None,
) -> list[Launch]:  # fmt: skip
    """Return the launches that sample for rows[:count] from logits[:count, :vocab_size] into drawn[:count] (int32).

    A negative row is padding. Each token becomes its row's last token, and the row grows by one. `take` allocates
    memory that keeps its contents between the launches; `early` launches may start while the previous kernel still
    runs. `chain` has, by batch index, a given token (-1: none) and the offset from the row's next position; rows with a
    given token are not changed.
    """
    given, offsets = chain or (rows, rows)
    is_chained = chain is not None
    block = BLOCK if filtered else plain_block(count)
    blocks = -(-vocab_size // block)
    groups = blocks * block // int(GROUP.value)
    best, tokens = take((count, blocks), torch.float32), take((count, blocks), torch.int32)
    tops = sums = maxima = listed = None
    if filtered:
        tops, sums = take((count, blocks), torch.float32), take((count, blocks), torch.float32)
        maxima, listed = take((count, groups), torch.float32), take((count, ceil_power(groups)), torch.int32)
    sizes = (logits.stride(0), columns.stride, columns.long_stride, vocab_size, blocks)
    survey = Launch(
        "survey blocks", survey_blocks, (blocks, count),
        (logits, columns.temperature, columns.seed, columns.index, rows, offsets, best, tokens, tops, sums, maxima,
         *sizes),
        {"BLOCK": block, "FILTERED": filtered, "CHAINED": is_chained, "PDL": early}, dependent=early,
    )  # fmt: skip
    choose = Launch(
        "choose tokens", choose_tokens, (count,),
        (logits, columns.temperature, columns.top_k, columns.top_p, columns.min_p, columns.seed, columns.index, rows,
         given, offsets, best, tokens, tops, sums, maxima, listed, columns.last_token, columns.length, drawn, *sizes,
         groups),
        {"BLOCKS": ceil_power(blocks), "GROUPS": ceil_power(groups), "CHUNK": CHUNK, "FILTERED": filtered,
         "CHAINED": is_chained, "PDL": early},
        warps=8 if filtered else 4, dependent=early,
    )  # fmt: skip
    return [survey, choose]
