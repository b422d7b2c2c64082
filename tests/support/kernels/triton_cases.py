"""Random sizes and pages for the cases of the Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from antiphon import ops
from antiphon.ops import CacheGroup, CacheKind, CacheLayout, GroupBatch, LayerCache
from antiphon.ops.cache import OFFSET_UNIT

T = TypeVar("T")


def pick(generator: torch.Generator, values: Sequence[T]) -> T:
    return values[int(torch.randint(len(values), (1,), generator=generator))]


def number(generator: torch.Generator, low: int, high: int) -> int:
    """Return a random number from `low` to `high`, both included."""
    return int(torch.randint(low, high + 1, (1,), generator=generator))


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator)


def error(value: Tensor, expected: Tensor) -> float:
    """Return ‖value − expected‖ / ‖expected‖ in float64."""
    value, expected = value.cpu().double(), expected.cpu().double()
    return ((value - expected).norm() / expected.norm().clamp(min=1e-30)).item()


@dataclass
class Scattered:
    """Requests whose tokens are in scattered blocks of a layer's pages, with tables in random rows of a larger one."""

    cache: LayerCache
    tables: Tensor  # [rows, blocks]
    rows: Tensor
    keys: list[Tensor]
    values: list[Tensor]

    def slots(self, request: int, first: int, last: int) -> Tensor:
        """Return the slots of tokens `first` (included) to `last` (excluded) of a request."""
        page = self.cache.layout.block_tokens
        tokens = torch.arange(first, last)
        entries = self.tables.cpu()[int(self.rows[request])].long()[tokens // page]
        return (entries * page + tokens % page).to(self.tables.device)

    def group(self, lengths: list[int], counts: list[int], num_decodes: int = 0) -> GroupBatch:
        """Build a step in which request r has `counts[r]` queries at the end of `lengths[r]` tokens."""
        device = self.tables.device
        slots = [self.slots(r, n - c, n) for r, (n, c) in enumerate(zip(lengths, counts, strict=True)) if n]
        starts = torch.tensor([0, *counts], device=device).cumsum(0).int()
        seq_lens = torch.tensor(lengths, dtype=torch.int32, device=device)
        return GroupBatch(torch.cat(slots), self.tables, seq_lens, starts, rows=self.rows, num_decodes=num_decodes)


def scatter(
    lengths: list[int], heads: int, channels: int, key_type: torch.dtype, value_type: torch.dtype,
    generator: torch.Generator, device: torch.device, page: int = 16, balance: Tensor | None = None, spare: int = 0,
) -> Scattered:  # fmt: skip
    """Fill pages with random tokens through the reference; each request has slots for `spare` more tokens."""
    layout = CacheLayout(CacheGroup("g", CacheKind.FULL, 3, heads, channels), page, key_type, value_type)
    blocks = max(-(-(length + spare) // page) for length in lengths) + 1
    count = len(lengths)
    arena = ops.allocate_arena((count * blocks + 1) * layout.block_bytes, device)
    arena.fill_(0xFF)
    order = torch.randperm(count * blocks, generator=generator) + 1
    tables = torch.zeros(count + 3, blocks, dtype=torch.int32)
    rows = torch.randperm(count + 3, generator=generator)[:count].int()
    tables[rows.long()] = (order.view(count, blocks) * layout.block_bytes // OFFSET_UNIT).int()
    cache = LayerCache(arena, layout, 1, balance)
    keys = [normal(generator, length, heads, channels).to(device) for length in lengths]
    values = [normal(generator, length, heads, channels).to(device) for length in lengths]
    made = Scattered(cache, tables.to(device), rows.to(device), keys, values)
    with ops.use_backend("reference"):
        for request, length in enumerate(lengths):
            if length:
                group = GroupBatch(made.slots(request, 0, length), made.tables, made.rows, made.rows)
                ops.store_kv(keys[request], values[request], cache, group)
    return made


def expected_attention(q: Tensor, pages: Scattered, lengths: list[int], counts: list[int], **options: object) -> Tensor:
    """Return the reference's `paged_attention` in fp32, request by request; zeros for requests of length 0."""
    out = []
    with ops.use_backend("reference"):
        for request, (part, length) in enumerate(zip(q.split(counts), lengths, strict=True)):
            if not length:
                out.append(torch.zeros_like(part))
                continue
            table = pages.tables[int(pages.rows[request])][None]
            starts = torch.tensor([0, len(part)], dtype=torch.int32, device=q.device)
            group = GroupBatch(starts, table, torch.tensor([length], device=q.device), starts)
            out.append(ops.paged_attention(part.float(), pages.cache, group, **options))  # type: ignore[arg-type]
    return torch.cat(out)
