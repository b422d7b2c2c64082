"""A recorded program as readable text: instructions, weights, costs and the locations of buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.aligned import aligned
from antiphon.ops.program.dimension import as_dim, shape_text
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.plan import BufferPlan, plan_buffers
from antiphon.ops.program.recording import Recording
from antiphon.ops.program.traced import Kind, Value

SYMBOLS = {"T": "tokens", "R": "requests", "L": "logit rows", "B": "windows", "S": "states of a window"}
HEADINGS: tuple[str, ...] = ("#", "OPERATION", "RESULT", "READS", "TO", "WEIGHT", "BYTES", "MACS")


@dataclass(frozen=True)
class Totals:
    """Cost of one run: bytes of weights, and multiply-accumulates (MACs) by the symbols that they are counted for."""

    weight_bytes: int
    macs: dict[str, int]


def totals(recording: Recording) -> Totals:
    macs: dict[str, int] = {}
    for instruction in recording.instructions:
        rows = as_dim(instruction.rows)
        unit = "".join(rows.symbols) or "run"
        count = instruction.macs_per_row() * max(rows.coefficient, 1)
        if count:
            macs[unit] = macs.get(unit, 0) + count
    return Totals(sum(instruction.weight_bytes() for instruction in recording.instructions), macs)


def describe(name: str, recording: Recording) -> list[str]:
    """Return lines of text: a heading, one line for each instruction, the totals and the buffer plan."""
    plan = plan_buffers(recording.instructions, recording.output)
    meaning = ", ".join(f"{symbol} {SYMBOLS.get(symbol, 'size')}" for symbol in recording.symbols)
    lines = [f"program {name}: {len(recording.instructions)} instructions; {meaning}"]
    locations = _locations(recording, plan)
    rows = [HEADINGS]
    for index, instruction in enumerate(recording.instructions):
        rows.append((str(index), *_cells(instruction, locations)))
    lines += aligned(rows, left={1, 2, 3, 4, 5})
    lines += _total_lines(recording)
    lines += [_area_line(area.symbols, area.num_values, area.bytes, area.unshared) for area in plan.areas]
    return lines


def _cells(instruction: Instruction, locations: dict[int, str]) -> tuple[str, ...]:
    written = instruction.written()
    reads = dict.fromkeys(
        _location_name(value, locations) for value in instruction.reads() if value.kind is not Kind.CONSTANT
    )
    weight, size, macs = instruction.weight, instruction.weight_bytes(), instruction.macs_per_row()
    macs_text = f"{macs:,}" if macs else ""
    if instruction.macs_per_pair():
        macs_text = f"{instruction.macs_per_pair():,} a key"
    return (
        instruction.operation,
        " ".join(shape_text(tensor.shape) for tensor in written),
        " ".join(reads),
        " ".join(_location_name(value, locations) for value in instruction.writes()),
        "" if weight is None else f"{'+'.join(weight.bytes_by_type)} {shape_text(weight.shape)}",
        f"{size:,}" if size else "",
        macs_text,
    )


def _location_name(value: Value, locations: dict[int, str]) -> str:
    return locations.get(id(value), value.name)


def _locations(recording: Recording, plan: BufferPlan) -> dict[int, str]:
    """Name values by id: inputs by their own names, buffers by area and offset."""
    names = {id(value): value.name for value in recording.inputs}
    for value in plan.values:
        area, offset = plan.locations[id(value)]
        names[id(value)] = f"{''.join(plan.areas[area].symbols)}@{offset}"
    if recording.output is not None:
        names[id(recording.output)] = "result"
    return names


def _total_lines(recording: Recording) -> Iterator[str]:
    found = totals(recording)
    yield f"weights read by a run: {found.weight_bytes:,} bytes"
    for unit, count in found.macs.items():
        yield f"multiplications with additions: {count:,} for each {unit}, attention to keys left out"


def _area_line(symbols: tuple[str, ...], count: int, size: int, unshared: int) -> str:
    unit, saved = "".join(symbols) or "run", 100 - 100 * size / max(unshared, 1)
    return f"buffers for each {unit}: {count} values in {size:,} bytes; {saved:.0f} % less than {unshared:,} unshared"
