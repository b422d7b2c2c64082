"""Properties of the GPU, counters for programs that work together, and tile sizes by shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Card:
    """Properties of a GPU on which launches depend."""

    capability: int  # 90 for sm_90
    multiprocessors: int

    @property
    def dependent_launch(self) -> bool:
        """Whether a kernel may start while the previous kernel still runs."""
        return self.capability >= 90

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory available to a block, less a margin for what the compiler adds."""
        largest = {80: 163, 87: 163, 90: 227, 100: 227, 103: 227}  # in KiB
        return (largest.get(self.capability, 99) - 3) << 10

    @property
    def converts_fp8(self) -> bool:
        """Whether the GPU has instructions that convert e4m3."""
        return self.capability >= 89


@cache
def card(device: torch.device) -> Card:
    """Return the properties of a CUDA device; for the CPU, those that the interpreter imitates."""
    if device.type != "cuda":
        return Card(0, 4)
    properties = torch.cuda.get_device_properties(device)
    return Card(10 * properties.major + properties.minor, properties.multi_processor_count)


#: Minimum counters per stream. CUDA graphs hold their address, so the first allocation should last.
MIN_COUNTERS = 1 << 16

_counters: dict[tuple[torch.device, int], Tensor] = {}


def counters(device: torch.device, count: int) -> Tensor:
    """Return at least `count` int32 zeros for kernels of the current stream; each kernel resets those that it uses."""
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    found = _counters.get((device, stream))
    if found is None or found.numel() < count:
        found = _counters[device, stream] = torch.zeros(max(count, MIN_COUNTERS), dtype=torch.int32, device=device)
    return found


def empty(device: torch.device, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def ceil_power(value: int) -> int:
    """Return the smallest power of two that is not less than `value`."""
    return 1 << max(value - 1, 0).bit_length()


def row_warps(width: int) -> int:
    """Return the warps of a program that computes one row of `width` elements."""
    return min(max(ceil_power(width) // 512, 1), 8)


def norm_tile(rows: int, width: int) -> int:
    """Return the rows per program of a norm: 1 if there are fewer than 1024, otherwise about 2048 elements."""
    return 1 if rows < 1024 else max(1, 2048 // ceil_power(width))


class FewRowsTile(NamedTuple):
    """Tile of a product with few rows: result columns per program, weight columns per iteration, warps."""

    columns: int
    depth: int
    warps: int


def vector_tile(rows: int, inputs: int, outputs: int) -> FewRowsTile:
    """Return the tile for a product of 1 to 4 rows, as measured for the shapes of 0.6B and 8B models."""
    depth = min(ceil_power(inputs), 1024 if rows == 1 else 256)
    if inputs <= 1024:
        return FewRowsTile(8 if outputs > 65536 else 4, depth, 2)
    return FewRowsTile(8 if outputs > 65536 or inputs > outputs else 4, depth, 4)


class QueryTile(NamedTuple):
    """Tile of attention: queries per program, tokens of keys and values per iteration, warps, pipeline stages."""

    queries: int
    tokens: int
    warps: int
    stages: int


def prefill_tile(dtype: torch.dtype, channels: int, shared: int, queries: float, page_bytes: int = 2) -> QueryTile:
    """Return the tile for chunks over pages.

    `shared` is the number of query heads per key head (a power of two), `queries` the average queries per chunk,
    `page_bytes` the bytes of an element of the pages.
    """
    if dtype is torch.float32:
        return QueryTile(max(16, 32 // shared), 32, 4, 1)
    if queries < 32:
        return QueryTile(16, 64 if channels <= 128 else 32, 4, 2)
    if channels <= 128 and page_bytes > 1:  # as timed on an H200
        return QueryTile(max(16, 128 // shared), 32, 4, 3) if shared >= 4 else QueryTile(64 // shared, 64, 4, 2)
    least = 16 if channels <= 128 else max(16 // shared, 1)
    return QueryTile(max(least, (128 if channels <= 128 else 64) // shared), 32, 8, 2)


def sequence_tile(dtype: torch.dtype, channels: int) -> QueryTile:
    """Return the tile for sequences without a cache."""
    if dtype is torch.float32:
        return QueryTile(32, 32, 4, 1)
    return QueryTile(64, 64, 4, 2) if channels <= 128 else QueryTile(32, 32, 4, 2)


def decode_tile(dtype: torch.dtype, channels: int, page_bytes: int = 2) -> QueryTile:
    """Return the tile for one query per request; `page_bytes` are the bytes of an element of the pages."""
    if dtype is torch.float32:
        return QueryTile(1, 32, 2, 1)
    return QueryTile(1, 64 if channels <= 128 else 32, 2 if channels <= 128 and page_bytes > 1 else 4, 3)


def decode_splits(on: Card, programs: int) -> int:
    """Return the number of parts of the context, 1 to 8, that make `programs` programs enough to occupy the GPU."""
    return min(max(ceil_power(2 * on.multiprocessors // max(programs, 1) + 1) // 2, 1), 8)


def joined_heads(heads: int, splits: int, channels: int, warps: int) -> int:
    """Return how many query heads of a key head a program combines at once: as many as 64 registers per thread hold."""
    room = 64 * 32 * warps // (ceil_power(splits) * ceil_power(channels))
    return max(1, min(ceil_power(heads), 1 << max(room, 1).bit_length() - 1))
