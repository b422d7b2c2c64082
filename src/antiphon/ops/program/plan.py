"""Where the buffers of a program lie: values that are never needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.ops.program.dimension import as_dim
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.traced import Kind, Value

ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """Bytes that are needed from instruction `first` to instruction `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def assign(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """An offset for each interval, and the bytes of all; those that meet never overlap.

    Each takes the tightest gap. Two orders are tried, the largest first and the earliest first; the smaller total wins.
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
    """Buffers that grow with the same symbols: `bytes` for each of them, `unshared` if none had shared memory."""

    symbols: tuple[str, ...]
    bytes: int
    unshared: int
    num_values: int


@dataclass(frozen=True)
class BufferPlan:
    """Areas one after the other, and for each value its area and its offset there, in bytes for each unit."""

    areas: tuple[Area, ...]
    locations: dict[int, tuple[int, int]]  # by the value's id
    values: tuple[Value, ...]


def plan_buffers(instructions: Sequence[Instruction], output: Value | None) -> BufferPlan:
    """Every buffer lives from the instruction that writes it to the last one that reads it."""
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
