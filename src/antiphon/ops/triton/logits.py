"""Logit edits of all rows, and counts of sampled tokens; the host never reads what is in the tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.logit_edits import LogitEditRows, TokenCounts, TokenLists
from antiphon.ops.reference import logits as reference
from antiphon.ops.triton.kernels.sampling.logit_edits import count_drawn, keep_typical, restrict_logits, shift_logits

#: Tokens per iteration of kernels that read whole rows, and of kernels that read lists of tokens.
WIDE, NARROW = 4096, 512


def edit_logits(logits: Tensor, edits: LogitEditRows) -> None:
    if logits.dtype is not torch.float32 or logits.stride(1) != 1:
        reference.edit_logits(logits, edits)
        return
    if not len(logits):
        return
    if not (edits.masks is edits.allowed is edits.banned is edits.spans is None):
        _restrict(logits, edits)
    if not (edits.bias is edits.penalties is None):
        _shift(logits, edits)
    if edits.typical is not None:
        count, vocabulary = logits.shape
        keep_typical[(count,)](logits, edits.typical, logits.stride(0), vocabulary, BLOCK=WIDE, num_warps=8)


def count_tokens(counts: TokenCounts, slots: Tensor, tokens: Tensor) -> None:
    if len(slots):
        count_drawn[(len(slots),)](
            counts.ids, counts.counts, counts.num_ids, slots, tokens, counts.ids.shape[1], BLOCK=NARROW, num_warps=4
        )


def _restrict(logits: Tensor, edits: LogitEditRows) -> None:
    count, vocabulary = logits.shape
    masks, allowed, banned, spans = edits.masks, edits.allowed, edits.banned, edits.spans
    kept = logits if allowed is None else torch.empty_like(allowed.ids, dtype=torch.float32)
    bits, index = (logits, logits) if masks is None else (masks.bits, masks.index)
    restrict_logits[(count,)](
        logits, bits, index, *_lists(allowed, logits), kept, *_lists(banned, logits),
        logits if spans is None else spans, logits.stride(0), 0 if masks is None else masks.bits.stride(0), vocabulary,
        MASKS=masks is not None, ALLOWED=allowed is not None, BANNED=banned is not None, SPANS=spans is not None,
        BLOCK=WIDE, num_warps=8,
    )  # fmt: skip


def _shift(logits: Tensor, edits: LogitEditRows) -> None:
    bias, penalties = edits.bias, edits.penalties
    values = logits if bias is None or bias.values is None else bias.values
    unused = (logits, logits, logits, logits, logits)
    if penalties is not None:
        counts = penalties.counts
        unused = (penalties.values, penalties.slots, counts.ids, counts.counts, counts.num_ids)
    shift_logits[(len(logits),)](
        logits, *_lists(bias, logits), values, *unused, logits.stride(0),
        0 if penalties is None else penalties.counts.ids.shape[1],
        BIAS=bias is not None, PENALTIES=penalties is not None, BLOCK=NARROW, num_warps=4,
    )  # fmt: skip


def _lists(lists: TokenLists | None, unused: Tensor) -> tuple[Tensor, Tensor]:
    return (unused, unused) if lists is None else (lists.row_start, lists.ids)
