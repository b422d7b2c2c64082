"""What a launch depends on: the card, its memory for kernels that work together, and the sizes of tiles by shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Card:
    """What kernels need to know of a device."""

    capability: int  # 90 for sm_90
    multiprocessors: int

    @property
    def dependent_launch(self) -> bool:
        """Whether a kernel may start while the one before it still runs."""
        return self.capability >= 90

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may have, less a margin for what a compiler adds."""
        largest = {80: 163, 87: 163, 90: 227, 100: 227, 103: 227}  # in KiB
        return (largest.get(self.capability, 99) - 3) << 10

    @property
    def converts_fp8(self) -> bool:
        """Whether e4m3 is a type of its instructions."""
        return self.capability >= 89


@cache
def card(device: torch.device) -> Card:
    """The card of a CUDA device; what the interpreter imitates where it is the CPU."""
    if device.type != "cuda":
        return Card(0, 4)
    properties = torch.cuda.get_device_properties(device)
    return Card(10 * properties.major + properties.minor, properties.multi_processor_count)


#: Counters that a stream has from the first use on. Graphs hold their address, so that they should not be outgrown.
MIN_COUNTERS = 1 << 16

_counters: dict[tuple[torch.device, int], Tensor] = {}


def counters(device: torch.device, count: int) -> Tensor:
    """At least `count` zeros (int32) for this stream's kernels to count with; a kernel leaves them zero."""
    stream = torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
    found = _counters.get((device, stream))
    if found is None or found.numel() < count:
        found = _counters[device, stream] = torch.zeros(max(count, MIN_COUNTERS), dtype=torch.int32, device=device)
    return found


def empty(device: torch.device, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=device)


def ceil_power(value: int) -> int:
    """The smallest power of two that is not less than `value`."""
    return 1 << max(value - 1, 0).bit_length()


def row_warps(width: int) -> int:
    """Warps for a program that does one row of this width."""
    return min(max(ceil_power(width) // 512, 1), 8)


def norm_tile(rows: int, width: int) -> int:
    """Rows of a program that normalises: one where there are few of them, else some thousands of elements."""
    return 1 if rows < 1024 else max(1, 2048 // ceil_power(width))


class FewRowsTile(NamedTuple):
    """Columns of the result of a program, columns of the weight at a time, warps."""

    columns: int
    depth: int
    warps: int


def vector_tile(rows: int, inputs: int, outputs: int) -> FewRowsTile:
    """Tiles for products of 1 to 4 rows, as measured for the shapes of 0.6B and 8B models."""
    depth = min(ceil_power(inputs), 1024 if rows == 1 else 256)
    if inputs <= 1024:
        return FewRowsTile(8 if outputs > 65536 else 4, depth, 2)
    return FewRowsTile(8 if outputs > 65536 or inputs > outputs else 4, depth, 4)


class QueryTile(NamedTuple):
    """Queries of a program, tokens of keys and values at a time, warps, stages of the pipeline."""

    queries: int
    tokens: int
    warps: int
    stages: int


def prefill_tile(dtype: torch.dtype, channels: int, shared: int, queries: float, page_bytes: int = 2) -> QueryTile:
    """Tiles for chunks over pages.

    `shared` query heads (a power of two) use a key head, `queries` is the average of a chunk, `page_bytes` are those of
    an element of the pages.
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
    """Tiles for sequences without a cache."""
    if dtype is torch.float32:
        return QueryTile(32, 32, 4, 1)
    return QueryTile(64, 64, 4, 2) if channels <= 128 else QueryTile(32, 32, 4, 2)


def decode_tile(dtype: torch.dtype, channels: int, page_bytes: int = 2) -> QueryTile:
    """Tiles for one query per request; `page_bytes` are those of an element of the pages."""
    if dtype is torch.float32:
        return QueryTile(1, 32, 2, 1)
    return QueryTile(1, 64 if channels <= 128 else 32, 2 if channels <= 128 and page_bytes > 1 else 4, 3)


def decode_splits(on: Card, programs: int) -> int:
    """Parts of the context that programs compute side by side, where there would be `programs` without."""
    return min(max(ceil_power(2 * on.multiprocessors // max(programs, 1) + 1) // 2, 1), 8)


def joined_heads(heads: int, splits: int, channels: int, warps: int) -> int:
    """How many of a key head's query heads a program combines at once: as many as 64 registers a thread hold."""
    room = 64 * 32 * warps // (ceil_power(splits) * ceil_power(channels))
    return max(1, min(ceil_power(heads), 1 << max(room, 1).bit_length() - 1))
