"""Logit edits, row by row on the extension's threads. A row's result depends on that row alone."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.ops.logit_edits import LogitEditRows, TokenCounts, TokenLists
from antiphon.ops.native.extension import extension
from antiphon.ops.reference import logits as reference
from antiphon.ops.threads import default_threads


def edit_logits(logits: Tensor, edits: LogitEditRows, threads: int | None = None, variant: int = 0) -> None:
    if logits.dtype is not torch.float32 or logits.stride(1) != 1 or not logits.is_cpu:
        reference.edit_logits(logits, edits)
        return
    masks, penalties, (count, vocabulary) = edits.masks, edits.penalties, logits.shape
    if masks is not None and masks.bits.shape[1] * 8 < vocabulary:
        raise ValueError(f"masks of {masks.bits.shape[1]} bytes for a vocabulary of {vocabulary} tokens")
    extension().edit_logits(
        logits.data_ptr(), logits.stride(0), count, vocabulary,
        *((0, 0, 0) if masks is None else (_at(masks.bits), _at(masks.index, count), masks.bits.shape[1])),
        _lists(edits.allowed, count), _lists(edits.banned, count), _at(edits.spans, count, 5),
        _lists(edits.bias, count),
        *((0, 0, (0, 0, 0, 0)) if penalties is None else (
            _at(penalties.values, count, 3), _at(penalties.slots, count), _counts(penalties.counts)
        )),
        threads or default_threads(), variant,
    )  # fmt: skip
    if edits.typical is not None:
        reference.edit_logits(logits, LogitEditRows(typical=edits.typical))


def count_tokens(counts: TokenCounts, slots: Tensor, tokens: Tensor) -> None:
    if not slots.is_cpu:
        reference.count_tokens(counts, slots, tokens)
        return
    tokens = tokens.to(torch.int64).contiguous()
    extension().count_tokens(_counts(counts), _at(slots, len(tokens)), tokens.data_ptr(), len(tokens))


def _at(tensor: Tensor | None, *shape: int) -> int:
    """Return the address of a tensor whose first dimensions must be `shape`; 0 for None."""
    if tensor is None:
        return 0
    if tuple(tensor.shape[: len(shape)]) != shape or not tensor.is_contiguous() or tensor.dtype not in _TYPES:
        raise ValueError(f"an edit of shape {tuple(tensor.shape)} and type {tensor.dtype}; expected {shape}")
    return tensor.data_ptr()


_TYPES = (torch.int32, torch.uint8, torch.float32)


def _lists(lists: TokenLists | None, count: int) -> tuple[int, int, int]:
    return (0, 0, 0) if lists is None else (_at(lists.row_start, count + 1), _at(lists.ids), _at(lists.values))


def _counts(counts: TokenCounts) -> tuple[int, int, int, int]:
    return _at(counts.ids), _at(counts.counts), _at(counts.num_ids), counts.ids.shape[1]
