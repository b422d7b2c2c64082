"""Paged key/value cache as operations see it: groups of layers, the layout of a block, one layer's pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

#: Bytes in the unit of block table entries, offsets from the arena's base; models of different shapes share one arena.
OFFSET_UNIT = 256
#: Alignment in bytes of every region inside a block.
REGION_ALIGNMENT = 64
#: Number of channels that share one fp16 scale in int8 pages, for each token and head.
SCALE_CHANNELS = 32


class CacheKind(StrEnum):
    FULL = "full"  # all tokens are kept
    WINDOW = "window"  # blocks outside the window are freed
    CROSS = "cross"  # written once, read without a causal mask


@dataclass(frozen=True)
class CacheGroup:
    """Layers of a model whose keys and values are allocated and freed together, as the model declares them."""

    name: str
    kind: CacheKind
    num_layers: int
    num_kv_heads: int
    head_dim: int
    window: int | None = None  # tokens that a query sees, itself included


def _align(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


@dataclass(frozen=True)
class CacheLayout:
    """Memory layout of a group's blocks.

    A block is one contiguous span that holds, for every layer of the group, K then V as
    [num_kv_heads, block_tokens, head_dim] and then, for int8, the scales of K and of V as
    [num_kv_heads, block_tokens, head_dim / 32] in fp16.
    """

    group: CacheGroup
    block_tokens: int = 16
    key_dtype: torch.dtype = torch.float32
    value_dtype: torch.dtype = torch.float32
    #: Compression of a group of kind FULL: only the first `sink_tokens` and the last `recent_tokens` are kept.
    recent_tokens: int | None = None
    sink_tokens: int = 0

    def __post_init__(self) -> None:
        if self.block_tokens < 1 or self.block_tokens & (self.block_tokens - 1):
            raise ValueError(f"a block holds a power of two of tokens, not {self.block_tokens}")
        if torch.int8 in (self.key_dtype, self.value_dtype) and self.group.head_dim % SCALE_CHANNELS:
            raise ValueError(f"int8 pages need a head size divisible by {SCALE_CHANNELS}, not {self.group.head_dim}")

    def _page_bytes(self, dtype: torch.dtype) -> int:
        elements = self.group.num_kv_heads * self.block_tokens * self.group.head_dim
        return _align(elements * dtype.itemsize, REGION_ALIGNMENT)

    def _scale_bytes(self, dtype: torch.dtype) -> int:
        if dtype != torch.int8:
            return 0
        elements = self.group.num_kv_heads * self.block_tokens * (self.group.head_dim // SCALE_CHANNELS)
        return _align(elements * 2, REGION_ALIGNMENT)

    @property
    def window(self) -> int | None:
        """Number of tokens that a query sees, itself included, beside the sinks; None if it sees all."""
        return self.group.window if self.recent_tokens is None else self.recent_tokens

    @cached_property
    def value_offset(self) -> int:
        return self._page_bytes(self.key_dtype)

    @cached_property
    def key_scale_offset(self) -> int:
        return self.value_offset + self._page_bytes(self.value_dtype)

    @cached_property
    def value_scale_offset(self) -> int:
        return self.key_scale_offset + self._scale_bytes(self.key_dtype)

    @cached_property
    def layer_bytes(self) -> int:
        return self.value_scale_offset + self._scale_bytes(self.value_dtype)

    @cached_property
    def block_bytes(self) -> int:
        return _align(self.layer_bytes * self.group.num_layers, OFFSET_UNIT)

    @property
    def bytes_per_token(self) -> float:
        return self.block_bytes / self.block_tokens


@dataclass(frozen=True)
class LayerCache:
    """Pages of one layer: the arena, and the offsets of the layer's regions in each block of the group.

    `packed` holds forms that backends derived from the fields, by backend name.
    """

    arena: Tensor  # uint8 [bytes], base aligned to OFFSET_UNIT
    layout: CacheLayout
    layer: int  # index within the group
    #: fp32 [kv_heads, head_dim], powers of two: int8 keys are stored divided by these factors, queries multiplied.
    key_balance: Tensor | None = None
    packed: dict[str, Any] = field(init=False, default_factory=dict, compare=False, repr=False)

    @property
    def group(self) -> str:
        return self.layout.group.name

    @property
    def window(self) -> int | None:
        return self.layout.window

    @property
    def sink_tokens(self) -> int:
        return self.layout.sink_tokens

    @cached_property
    def key_offset(self) -> int:
        """Offset in bytes of this layer's keys from a block's start."""
        return self.layer * self.layout.layer_bytes

    @cached_property
    def value_offset(self) -> int:
        return self.key_offset + self.layout.value_offset


class KVCache:
    """Layer caches of one model over one arena."""

    def __init__(
        self,
        arena: Tensor,
        layouts: list[CacheLayout],
        key_balance: Callable[[str, int], Tensor | None] | None = None,
    ) -> None:
        """Make the caches of all layers; `key_balance(group, layer)` returns the divisors of a layer's int8 keys."""
        self.arena = arena
        self.layouts = {layout.group.name: layout for layout in layouts}
        self._layers: dict[str, list[LayerCache]] = {}
        for name, layout in self.layouts.items():
            ask = key_balance if layout.key_dtype == torch.int8 else None
            self._layers[name] = [
                LayerCache(arena, layout, layer, ask(name, layer) if ask else None)
                for layer in range(layout.group.num_layers)
            ]

    def layer(self, group: str, index: int) -> LayerCache:
        return self._layers[group][index]


def allocate_arena(num_bytes: int, device: torch.device | str = "cpu") -> Tensor:
    """Allocate a zeroed arena of `num_bytes`, rounded down to a multiple of OFFSET_UNIT, to which it is aligned."""
    if torch.device(device).type == "cpu":
        raw = torch.from_numpy(np.zeros(num_bytes + OFFSET_UNIT, dtype=np.uint8))  # pages are committed on first use
    else:
        raw = torch.zeros(num_bytes + OFFSET_UNIT, dtype=torch.uint8, device=device)
    start = -raw.data_ptr() % OFFSET_UNIT
    return raw[start : start + num_bytes // OFFSET_UNIT * OFFSET_UNIT]
