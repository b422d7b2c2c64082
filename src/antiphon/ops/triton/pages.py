"""What kernels are given of a layer's pages and of a step's requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.ops.batch import GroupBatch
from antiphon.ops.cache import LayerCache
from antiphon.ops.triton.kernel_launch import Launch
from antiphon.ops.triton.kernels.attention.heads import prepare_heads
from antiphon.ops.triton.kernels.attention.tiles import list_tiles
from antiphon.ops.triton.launch import card, ceil_power, row_warps

_KEY = "triton"


@dataclass(frozen=True)
class Pages:
    """One layer's regions of the arena, each as elements of its type with the offset at which a block's begins."""

    keys: Tensor
    values: Tensor
    scales: Tensor  # fp16
    balance: Tensor  # anything where keys are not balanced
    balanced: bool
    bases: tuple[int, int, int, int]  # keys, values, scales of keys, scales of values

    @property
    def element_bytes(self) -> int:
        """Of the smaller type of keys and values."""
        return min(self.keys.element_size(), self.values.element_size())

    @property
    def regions(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """As kernels take them: keys, values, scales of both, balance."""
        return self.keys, self.values, self.scales, self.scales, self.balance


def _element(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """The type that kernels are given: e4m3 is bytes to a card that has no instructions for it."""
    return torch.uint8 if dtype is torch.float8_e4m3fn and not card(device).converts_fp8 else dtype


def pages_of(cache: LayerCache) -> Pages:
    """The view of a layer's pages, made once."""
    found = cache.packed.get(_KEY)
    if found is None:
        layout, start = cache.layout, cache.key_offset
        bases = (
            start // layout.key_dtype.itemsize,
            (start + layout.value_offset) // layout.value_dtype.itemsize,
            (start + layout.key_scale_offset) // 2,
            (start + layout.value_scale_offset) // 2,
        )
        scales = cache.arena.view(torch.float16)
        balanced = cache.key_balance is not None
        found = cache.packed[_KEY] = Pages(
            cache.arena.view(_element(layout.key_dtype, cache.arena.device)),
            cache.arena.view(_element(layout.value_dtype, cache.arena.device)),
            scales,
            scales if cache.key_balance is None else cache.key_balance,
            balanced,
            bases,
        )
    return found


def store_launch(
    k: Tensor, v: Tensor, strides: Sequence[int], cache: LayerCache, slots: Tensor, tokens: int,
    gain: Tensor | None = None, eps: float = 0.0, table: Tensor | None = None, positions: Tensor | None = None,
) -> Launch:  # fmt: skip
    """Store keys and values of `tokens` tokens. The strides are those of k by token and by head, then those of v.

    Keys are normalised if there is a `gain`, and rotated by their `positions` if there is a `table`.
    """
    pages, layout = pages_of(cache), cache.layout
    heads, channels = layout.group.num_kv_heads, layout.group.head_dim
    return Launch(
        "store", prepare_heads, (tokens,),
        (k, k, v, k, k if gain is None else gain, k if table is None else table,
         slots if positions is None else positions, slots, *pages.regions, k, k, 0, 0, *strides, *pages.bases, 0.0,
         eps),
        {"H": 0, "HK": heads, "D": channels, "DB": ceil_power(channels), "HB": 1, "HKB": ceil_power(heads),
         "ROTATED": 0 if table is None else int(table.shape[1]), "PAGE": layout.block_tokens, "Q_NORM": False,
         "K_NORM": gain is not None, "BALANCED": pages.balanced, "STORE": True},
        row_warps(heads * channels),
    )  # fmt: skip


def table_rows(group: GroupBatch) -> Tensor:
    """The row of the block table of each request, int32 [R]."""
    if group.rows is not None:
        return group.rows
    found = group.packed.get(_KEY)
    if found is None:
        count, device = len(group.seq_lens), group.seq_lens.device
        found = group.packed[_KEY] = torch.arange(count, dtype=torch.int32, device=device)
    return found


def query_tiles(starts: Tensor, num_queries: int, tokens: int, first: int = 0) -> Tensor:
    """int32 [tiles, 2]: request and first query of each tile of `tokens` queries; the last ones may be -1.

    `starts` [R + 1] divides the queries among requests; those before `first` are left out, and `num_queries` are those
    of the others. Nothing is read back: the list is as long as it may have to be.
    """
    requests = len(starts) - 1
    count = min(num_queries, num_queries // tokens + requests - first)
    tiles = torch.empty(count, 2, dtype=torch.int32, device=starts.device)
    list_tiles[(requests - first + 1,)](
        starts, tiles, first, requests, count, tokens, REQUESTS=ceil_power(requests), BLOCK=128
    )
    return tiles


def group_tiles(group: GroupBatch, num_queries: int, tokens: int, first: int) -> Tensor:
    """`query_tiles` of a group's step, made once for all layers that divide it in the same way.

    Inference tensors have no version: where their contents change, a new `GroupBatch` is needed.
    """
    key = f"{_KEY} tiles {tokens}"
    starts = group.query_start
    version = 0 if starts.is_inference() else starts._version, num_queries, first
    found = group.packed.get(key)
    if found is None or found[0] != version:
        found = group.packed[key] = (version, query_tiles(group.query_start, num_queries, tokens, first))
    return found[1]
