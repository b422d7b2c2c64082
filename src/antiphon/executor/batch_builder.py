"""From what each request computes this step to the tensors of a `Batch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.ops import Batch, CacheLayout, GroupBatch


@dataclass(frozen=True)
class Span:
    """One request's tokens of a step.

    `token_ids` are the tokens to compute, the first at position `start`. `block_tables` has the table entries of
    every cache group that the step touches; `cross_tokens` is how many encoder states lie in a cross group.
    """

    token_ids: Sequence[int]
    start: int
    block_tables: Mapping[str, Sequence[int]]
    wants_all_logits: bool = False
    wants_logits: bool = True
    cross_tokens: int = 0


def _slots(table: Sequence[int], start: int, count: int, block_tokens: int) -> np.ndarray:
    positions = np.arange(start, start + count)
    entries = np.asarray(table, dtype=np.int64)[positions // block_tokens]
    return entries * block_tokens + positions % block_tokens


def _padded_tables(tables: Sequence[Sequence[int]]) -> Tensor:
    out = np.zeros((len(tables), max(map(len, tables), default=0)), dtype=np.int32)
    for row, table in enumerate(tables):
        out[row, : len(table)] = table
    return torch.from_numpy(out)


def build_batch(
    spans: Sequence[Span], layouts: Mapping[str, CacheLayout], cross_groups: frozenset[str] = frozenset()
) -> Batch:
    """Lay the spans end to end. Groups named in `cross_groups` are only read: nothing is stored to them."""
    counts = [len(span.token_ids) for span in spans]
    query_start = np.zeros(len(spans) + 1, dtype=np.int32)
    np.cumsum(counts, out=query_start[1:])
    positions = [
        np.arange(span.start, span.start + count, dtype=np.int32) for span, count in zip(spans, counts, strict=True)
    ]
    logit_rows: list[int] = []
    for span, first, last in zip(spans, query_start, query_start[1:], strict=False):
        if span.wants_all_logits:
            logit_rows.extend(range(first, last))
        elif span.wants_logits:
            logit_rows.append(last - 1)
    start_tensor = torch.from_numpy(query_start)
    groups = {}
    for name, layout in layouts.items():
        tables = [span.block_tables[name] for span in spans]
        if name in cross_groups:
            slots = np.empty(0, dtype=np.int64)
            seq_lens = [span.cross_tokens for span in spans]
        else:
            parts = [
                _slots(table, span.start, count, layout.block_tokens)
                for table, span, count in zip(tables, spans, counts, strict=True)
            ]
            slots = np.concatenate(parts)
            seq_lens = [span.start + count for span, count in zip(spans, counts, strict=True)]
        groups[name] = GroupBatch(
            torch.from_numpy(slots), _padded_tables(tables), torch.tensor(seq_lens, dtype=torch.int32), start_tensor
        )
    return Batch(
        token_ids=torch.tensor([token for span in spans for token in span.token_ids], dtype=torch.int32),
        positions=torch.from_numpy(np.concatenate(positions)),
        query_start=start_tensor,
        logit_rows=torch.tensor(logit_rows, dtype=torch.int64),
        groups=groups,
    )
