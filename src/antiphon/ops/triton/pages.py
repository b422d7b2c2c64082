"""Arguments of the attention kernels: a layer's pages, block tables, and tiles of queries."""

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
    """Regions of the arena that hold one layer, each in its element type, with the region's offset in a block."""

    keys: Tensor
    values: Tensor
    scales: Tensor  # fp16
    balance: Tensor  # unused unless `balanced`
    balanced: bool
    bases: tuple[int, int, int, int]  # offsets in elements of keys, values, scales of keys, scales of values

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of keys or values, whichever is smaller."""
        return min(self.keys.element_size(), self.values.element_size())

    @property
    def regions(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Arguments of kernels: keys, values, scales of keys, scales of values, balance."""
        return self.keys, self.values, self.scales, self.scales, self.balance


def _element(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the type in which kernels read pages: uint8 for e4m3 on a GPU that cannot convert e4m3."""
    return torch.uint8 if dtype is torch.float8_e4m3fn and not card(device).converts_fp8 else dtype


def pages_of(cache: LayerCache) -> Pages:
    """Return the views of a layer's pages, which are created once."""
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
    """Return the launch that stores the keys and values of `tokens` tokens.

    `strides` are in elements: k by token and by head, then v by token and by head. With a `gain` keys are normalised;
    with a `table` they are rotated by their `positions`.
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
    """Return each request's row of the block table, int32 [R]."""
    if group.rows is not None:
        return group.rows
    found = group.packed.get(_KEY)
    if found is None:
        count, device = len(group.seq_lens), group.seq_lens.device
        found = group.packed[_KEY] = torch.arange(count, dtype=torch.int32, device=device)
    return found


def query_tiles(starts: Tensor, num_queries: int, tokens: int, first: int = 0) -> Tensor:
    """Return the request, and the first query in its chunk, of each tile of `tokens` queries: int32 [tiles, 2].

    `starts` [R + 1] divides the queries among requests. Requests before `first` are left out; `num_queries` counts the
    queries of the others. The list has the maximum possible length, since the host does not read `starts`; unused
    entries have request -1.
    """
    requests = len(starts) - 1
    count = min(num_queries, num_queries // tokens + requests - first)
    tiles = torch.empty(count, 2, dtype=torch.int32, device=starts.device)
    list_tiles[(requests - first + 1,)](
        starts, tiles, first, requests, count, tokens, REQUESTS=ceil_power(requests), BLOCK=128
    )
    return tiles


def group_tiles(group: GroupBatch, num_queries: int, tokens: int, first: int) -> Tensor:
    """Return the `query_tiles` of a group's step, created once for all layers that divide the step in the same way.

    New contents of `query_start` are detected by its version. Inference tensors have no version: when their contents
    change, a new `GroupBatch` is needed.
    """
    key = f"{_KEY} tiles {tokens}"
    starts = group.query_start
    version = 0 if starts.is_inference() else starts._version, num_queries, first
    found = group.packed.get(key)
    if found is None or found[0] != version:
        found = group.packed[key] = (version, query_tiles(group.query_start, num_queries, tokens, first))
    return found[1]
