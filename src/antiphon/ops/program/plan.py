"""Memory plan of a program's buffers: values that are never needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.ops.program.dimension import as_dim
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.traced import Kind, Value

ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """Lifetime of a buffer of `size` bytes, from instruction `first` to instruction `last` inclusive."""

    size: int
    first: int
    last: int

    def meets(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def assign(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """Return an offset for each interval, and the total bytes; buffers alive at the same time never overlap.

    Each buffer gets the tightest gap. Of two orders, largest first and earliest first, the smaller total wins.
    """
    everyone = range(len(intervals))
    orders = (
        sorted(everyone, key=lambda i: (-intervals[i].size, intervals[i].first, i)),
        sorted(everyone, key=lambda i: (intervals[i].first, -intervals[i].size, i)),
    )
    return min((_assign(intervals, order) for order in orders), key=lambda found: found[1])


def _assign(intervals: Sequence[Interval], order: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(intervals)
    placed: list[int] = []
    for index in order:
        own = intervals[index]
        taken = sorted(
            (offsets[other], offsets[other] + intervals[other].size) for other in placed if own.meets(intervals[other])
        )
        start, best = 0, None
        for begin, end in taken:
            gap = begin - start
            if gap >= own.size and (best is None or gap < best[0]):
                best = (gap, start)
            start = max(start, end)
        offsets[index] = start if best is None else best[1]
        placed.append(index)
    total = max((offset + interval.size for offset, interval in zip(offsets, intervals, strict=True)), default=0)
    return offsets, total


@dataclass(frozen=True)
class Area:
    """Buffers whose sizes are multiples of the same symbols; `bytes` and `unshared` are bytes per unit of these.

    `unshared` is the size without shared memory.
    """

    symbols: tuple[str, ...]
    bytes: int
    unshared: int
    num_values: int


@dataclass(frozen=True)
class BufferPlan:
    """Areas, end to end, and each value's area and its offset there, in bytes per unit of the area's symbols."""

    areas: tuple[Area, ...]
    locations: dict[int, tuple[int, int]]  # by the value's id
    values: tuple[Value, ...]


def plan_buffers(instructions: Sequence[Instruction], output: Value | None) -> BufferPlan:
    """Plan the buffers: each lives from the instruction that writes it to the last instruction that reads it."""
    spans: dict[int, tuple[Value, int, int]] = {}
    for index, instruction in enumerate(instructions):
        for value in instruction.writes():
            if value is not output:
                spans[id(value)] = (value, index, index)
        for value in instruction.reads():
            if value.kind is Kind.BUFFER and value is not output:
                spans[id(value)] = (value, spans[id(value)][1], index)
    by_symbols: dict[tuple[str, ...], list[tuple[Value, Interval]]] = {}
    for value, first, last in spans.values():
        size = as_dim(value.size)
        interval = Interval(_aligned((size.coefficient or size.constant) * value.dtype.itemsize), first, last)
        by_symbols.setdefault(size.symbols, []).append((value, interval))
    areas, locations, values = [], {}, []
    for number, (symbols, entries) in enumerate(by_symbols.items()):
        offsets, total = assign([interval for _, interval in entries])
        areas.append(Area(symbols, total, sum(interval.size for _, interval in entries), len(entries)))
        for (value, _), offset in zip(entries, offsets, strict=True):
            locations[id(value)] = (number, offset)
            values.append(value)
    return BufferPlan(tuple(areas), locations, tuple(values))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
