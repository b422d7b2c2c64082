"""Tiny stand-in for the engine: gives requests shuffled, non-contiguous blocks and runs a model on their spans."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from antiphon.models.base.model import CausalLM
from antiphon.ops import Batch, CacheKind, CacheLayout, GroupBatch, KVCache, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT


@dataclass(frozen=True)
class Span:
    """Tokens of a request in a step.

    `token_ids` are the tokens to compute, the first at position `start`. `block_tables` has the table entries of every
    cache group that the step touches; `cross_tokens` is the number of encoder states in a cross group.
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
    """Build a batch of the spans, laid end to end. Groups in `cross_groups` are only read, so they get no slots."""
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


class PagedRunner:
    """Runner that gives every request blocks for `max_tokens` in advance, scattered over a poisoned arena."""

    def __init__(
        self,
        model: CausalLM,
        num_requests: int,
        max_tokens: int,
        block_tokens: int = 4,
        dtype: torch.dtype = torch.float32,
        value_dtype: torch.dtype | None = None,
        seed: int = 0,
        cross_tokens: int = 0,
    ) -> None:
        self.model = model
        self.cross_tokens = cross_tokens
        layouts = [CacheLayout(group, block_tokens, dtype, value_dtype or dtype) for group in model.cache_groups()]
        wanted: list[tuple[int, str, int]] = []
        for row in range(num_requests):
            for layout in layouts:
                tokens = cross_tokens if layout.group.kind is CacheKind.CROSS else max_tokens
                wanted += [(row, layout.group.name, layout.block_bytes)] * -(-tokens // block_tokens)
        random.Random(seed).shuffle(wanted)
        arena = allocate_arena(sum(size for _, _, size in wanted) + 4096)
        arena.fill_(0xFF)  # NaN in every float type, so that a read of an unwritten value is visible
        self.tables: list[dict[str, list[int]]] = [
            {layout.group.name: [] for layout in layouts} for _ in range(num_requests)
        ]
        offset = 1024
        for row, group, size in wanted:
            self.tables[row][group].append(offset // OFFSET_UNIT)
            offset += size
        self.cache = KVCache(arena, layouts, model.key_balance)
        self.cross_groups = frozenset(x.group.name for x in layouts if x.group.kind is CacheKind.CROSS)

    def step(self, spans: Sequence[tuple[int, Sequence[int], int]]) -> list[Tensor]:
        """Run (request, tokens, start) triples in a forward pass; return logits [len(tokens), vocab] for each."""
        full = [
            Span(tokens, start, self.tables[row], wants_all_logits=True, cross_tokens=self.cross_tokens)
            for row, tokens, start in spans
        ]
        batch = build_batch(full, self.cache.layouts, self.cross_groups)
        logits = self.model.forward(batch, self.cache)
        return list(logits.split([len(tokens) for _, tokens, _ in spans]))

    def store_encoded(self, encoded: Tensor) -> None:
        """Write the encoder states [requests * cross_tokens, hidden] of all requests to their cross blocks."""
        spans = [Span([0] * self.cross_tokens, 0, table) for table in self.tables]
        layouts = {name: layout for name, layout in self.cache.layouts.items() if name in self.cross_groups}
        self.model.store_encoded(encoded, build_batch(spans, layouts), self.cache)  # type: ignore[attr-defined]
