"""Tensors of a `Batch` on the device, from one upload of a plan and from the rows there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.engine.plan import StepPlan
from antiphon.executor.device.rows import DeviceRows
from antiphon.executor.step_batch import StepEntries, has_adapters, logit_rows_of
from antiphon.ops import Batch, CacheKind, GroupBatch

#: Token id that stands for the last token of the row, which only the device knows.
LAST_TOKEN = -1
#: Token id that stands for padding: its keys and values are not stored.
PADDING = -2


@dataclass(frozen=True)
class StepSize:
    """Numbers of tokens, requests and rows of logits that a step's tensors have room for."""

    tokens: int
    requests: int
    logits: int

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of the parts of a packed step, in the order of `pack`."""
        return (self.tokens,) * 3 + (self.requests + 1, *(self.requests,) * 3, self.logits)


@dataclass(frozen=True)
class PackedStep:
    """Step as one array of 32-bit words, and its properties that stay on the host."""

    words: NDArray[np.int32]
    size: StepSize
    entries: StepEntries
    num_decodes: int
    adapted: bool


def step_size(plan: StepPlan, num_logits: int) -> StepSize:
    return StepSize(plan.num_tokens, len(plan.requests), num_logits)


def pack(plan: StepPlan, room: StepSize | None = None) -> PackedStep:
    """Pack ids, positions and rows by token; first token, length, row and new tokens by request; rows of the logits.

    With more `room` than the plan needs, the rest is padding: tokens that are not stored, requests without tokens.
    """
    count, tokens = len(plan.requests), plan.num_tokens
    rows = np.array([request.row for request in plan.requests], dtype=np.int64)
    starts, counts = np.asarray(plan.starts, dtype=np.int32), np.asarray(plan.counts, dtype=np.int32)
    query_start = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(counts, out=query_start[1:])
    ids = np.full(tokens, LAST_TOKEN, dtype=np.int32)
    for entry in range(plan.num_decodes, count):
        ids[query_start[entry] : query_start[entry + 1]] = plan.tokens_of(entry)
    positions = np.repeat(starts - query_start[:-1], counts) + np.arange(tokens, dtype=np.int32)
    logit_rows, entries = logit_rows_of(plan, rows, query_start)
    grown = counts.copy()
    for entry, draft in plan.drafts.items():
        grown[entry] -= len(draft)  # `DeviceRows.draw` adds the drafted tokens that are kept
    parts: tuple[NDArray[np.integer], ...] = (
        ids,
        positions,
        np.repeat(rows, counts),
        query_start,
        starts + counts,
        rows,
        grown,
        logit_rows,
    )
    size = room or step_size(plan, len(logit_rows))
    fillings = (PADDING, 0, 0, tokens, 0, 0, 0, 0)
    words = np.concatenate(
        [
            np.pad(part, (0, length - len(part)), constant_values=filling).astype(np.int32, copy=False)
            for part, length, filling in zip(parts, size.lengths, fillings, strict=True)
        ]
    )
    return PackedStep(words, size, entries, plan.num_decodes, has_adapters(plan))


def unpack(words: Tensor, size: StepSize, store: DeviceRows, num_decodes: int = 0, adapted: bool = False) -> Batch:
    """Build the batch of a packed step on the device, and add its tokens to the lengths of its rows."""
    given, at, token_rows, first, seq_lens, own_rows, grown, wanted = words.split(size.lengths)
    token_ids = torch.where(given == LAST_TOKEN, store.last_token[token_rows], given.clamp(min=0))
    groups: dict[str, GroupBatch] = {}
    for table, layout in zip(store.tables, store.layouts, strict=True):
        block = layout.block_tokens
        if layout.group.kind is CacheKind.CROSS:
            lengths, slots = store.cross_tokens[own_rows], torch.empty(0, dtype=torch.int64, device=store.device)
        else:
            stored = table[token_rows, at // block].long() * block + at % block
            lengths, slots = seq_lens, torch.where(given == PADDING, -1, stored)
        groups[layout.group.name] = GroupBatch(slots, table, lengths, first, own_rows, num_decodes)
    store.length.index_add_(0, own_rows, grown)
    return Batch(
        positions=at,
        query_start=first,
        logit_rows=wanted.long(),
        token_ids=token_ids,
        adapters=store.adapter[token_rows] if adapted else None,
        groups=groups,
    )
