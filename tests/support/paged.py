"""A tiny stand-in for the engine: hands shuffled, non-contiguous blocks to requests and runs a model on spans."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.executor.batch_builder import Span, build_batch
from antiphon.models.model import CausalLM
from antiphon.ops import CacheKind, CacheLayout, KVCache, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT


class PagedRunner:
    """Gives every request `max_tokens` worth of blocks up front, scattered over a poisoned arena."""

    def __init__(
        self,
        model: CausalLM,
        num_requests: int,
        max_tokens: int,
        block_tokens: int = 4,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        cross_tokens: int = 0,
    ) -> None:
        self.model = model
        self.cross_tokens = cross_tokens
        layouts = [CacheLayout(group, block_tokens, dtype, dtype) for group in model.cache_groups()]
        wanted: list[tuple[int, str, int]] = []
        for row in range(num_requests):
            for layout in layouts:
                tokens = cross_tokens if layout.group.kind is CacheKind.CROSS else max_tokens
                wanted += [(row, layout.group.name, layout.block_bytes)] * -(-tokens // block_tokens)
        random.Random(seed).shuffle(wanted)
        arena = allocate_arena(sum(size for _, _, size in wanted) + 4096)
        arena.fill_(0xFF)  # NaN in every float type: reading what was not written shows
        self.tables: list[dict[str, list[int]]] = [
            {layout.group.name: [] for layout in layouts} for _ in range(num_requests)
        ]
        offset = 1024
        for row, group, size in wanted:
            self.tables[row][group].append(offset // OFFSET_UNIT)
            offset += size
        self.cache = KVCache(arena, layouts)
        self.cross_groups = frozenset(x.group.name for x in layouts if x.group.kind is CacheKind.CROSS)

    def step(self, spans: Sequence[tuple[int, Sequence[int], int]]) -> list[Tensor]:
        """Run (request, tokens, start) triples in one forward; logits [len(tokens), vocab] for each."""
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
