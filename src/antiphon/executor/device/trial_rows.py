"""`TrialRows`: rows and blocks of requests that exist only for a measurement or a check."""

from __future__ import annotations

import torch
from torch import Tensor

from antiphon.errors import UnsupportedError
from antiphon.executor.device.rows import DeviceRows
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Batch, CacheKind, CacheLayout, GroupBatch, KVCache, allocate_arena
from antiphon.ops.cache import OFFSET_UNIT


class TrialRows:
    """Rows 0 to `count` - 1 with room for `max_tokens` tokens each. The pages hold zeros."""

    def __init__(
        self, decoder: TokenDecoder, count: int, max_tokens: int, page_type: torch.dtype, device: torch.device
    ) -> None:
        if any(group.kind is CacheKind.CROSS for group in decoder.cache_groups):
            raise UnsupportedError("the step of a decoder that reads an encoder is not measured")
        self.count, self.max_tokens = count, max_tokens
        layouts = [CacheLayout(group, key_dtype=page_type, value_dtype=page_type) for group in decoder.cache_groups]
        self.store = DeviceRows(count, layouts, [max_tokens] * len(layouts), device)
        size = sum(count * self._num_blocks(layout) * layout.block_bytes for layout in layouts)
        self.cache = KVCache(allocate_arena(size, device), layouts, decoder.key_balance)
        self._fill_tables(layouts)

    def batch(self, tokens: Tensor, start: int = 0) -> Batch:
        """Build a step that computes tokens [count, n] of the requests from position `start` on, with all logits."""
        count, length = tokens.shape
        device = self.store.device
        rows = torch.arange(count, device=device).repeat_interleave(length)
        positions = torch.arange(start, start + length, device=device).repeat(count)
        query_start = (length * torch.arange(count + 1, device=device)).int()
        seq_lens = torch.full((count,), start + length, dtype=torch.int32, device=device)
        groups = {}
        for layout, table in zip(self.store.layouts, self.store.tables, strict=True):
            block = layout.block_tokens
            slots = table[rows, positions // block].long() * block + positions % block
            own = torch.arange(count, dtype=torch.int32, device=device)
            decodes = count if length == 1 else 0
            groups[layout.group.name] = GroupBatch(slots, table, seq_lens, query_start, own, decodes)
        return Batch(
            positions=positions.int(),
            query_start=query_start,
            logit_rows=torch.arange(count * length, device=device),
            token_ids=tokens.flatten().int().to(device),
            groups=groups,
        )

    def _num_blocks(self, layout: CacheLayout) -> int:
        return -(-self.max_tokens // layout.block_tokens)

    def _fill_tables(self, layouts: list[CacheLayout]) -> None:
        first = 0
        for layout, table in zip(layouts, self.store.tables, strict=True):
            blocks, size = self._num_blocks(layout), layout.block_bytes // OFFSET_UNIT
            entries = first + size * torch.arange(self.count * blocks, dtype=torch.int32)
            table[:, :blocks] = entries.view(self.count, blocks).to(table.device)
            first += self.count * blocks * size
