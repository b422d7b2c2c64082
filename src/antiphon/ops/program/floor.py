"""The least time that a machine needs for a step of a recorded program, by its bytes and operations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.counted import counted
from antiphon.ops.program.dimension import as_dim
from antiphon.ops.program.instructions import Instruction
from antiphon.ops.program.profile import MachineLimits
from antiphon.ops.program.recording import Recording
from antiphon.weights.types import TORCH_DTYPES

#: What a step of decoding has one of for each sequence: tokens, requests, logit rows.
STEP_SYMBOLS = frozenset("TRL")
HEADINGS = ("INSTRUCTION", "COUNT", "MB", "MMAC", "AT BEST µS", "SHARE", "LIMITED BY")


@dataclass(frozen=True)
class StepSize:
    """A step that gives each of `rows` sequences one token, after `context` tokens."""

    rows: int = 1
    context: int = 512


@dataclass
class KindFloor:
    """The instructions of one kind, as in `KindTime`. Each is limited by its bytes or by its operations."""

    kind: str
    count: int = 0
    bytes: float = 0.0
    macs: float = 0.0
    seconds: float = 0.0
    seconds_of_bytes: float = 0.0

    @property
    def bound(self) -> str:
        return "bytes" if self.seconds_of_bytes > self.seconds / 2 else "operations"


def has_floor(recording: Recording) -> bool:
    """Whether its sizes are those of a step of decoding."""
    return STEP_SYMBOLS.issuperset(recording.symbols)


def step_floor(recording: Recording, size: StepSize, limits: MachineLimits) -> list[KindFloor]:
    """The kinds of instructions, the one that takes longest first. Those without weights or keys are left out."""
    kinds: dict[str, KindFloor] = {}
    for instruction in recording.instructions:
        num_bytes, macs = costs(instruction, size)
        if not num_bytes and not macs:
            continue
        weight = instruction.weight
        name = instruction.operation + ("" if weight is None else " " + "+".join(weight.bytes_by_type))
        rate = limits.macs_per_second
        if _can_use_int8(instruction) and limits.int8_macs_per_second:
            rate = limits.int8_macs_per_second
        reading, computing = num_bytes / limits.bytes_per_second, macs / rate
        kind = kinds.setdefault(name, KindFloor(name))
        kind.count += 1
        kind.bytes += num_bytes
        kind.macs += macs
        kind.seconds += max(reading, computing)
        kind.seconds_of_bytes += reading if reading >= computing else 0.0
    return sorted(kinds.values(), key=lambda kind: -kind.seconds)


def _can_use_int8(instruction: Instruction) -> bool:
    """Whether a backend may multiply in int8: it does, or its weights are quantised."""
    weight = instruction.weight
    is_quantised = weight is not None and any(part.type not in TORCH_DTYPES for part in weight.parts)
    return instruction.is_int8 or is_quantised


def costs(instruction: Instruction, size: StepSize) -> tuple[float, float]:
    """Bytes of weights, keys and values, and multiplications with additions. Activations stay in the caches."""
    rows = as_dim(instruction.rows).value(dict.fromkeys(STEP_SYMBOLS, size.rows))
    keys = size.rows * size.context
    num_bytes = instruction.weight_bytes() + keys * instruction.bytes_per_key()
    return num_bytes, rows * instruction.macs_per_row() + keys * instruction.macs_per_pair()


def floor_lines(name: str, recording: Recording, size: StepSize, limits: MachineLimits) -> Iterator[str]:
    """The floor of a step as a readable table."""
    kinds = step_floor(recording, size, limits)
    total = sum(kind.seconds for kind in kinds)
    int8 = f", {limits.int8_macs_per_second / 1e9:,.1f} of int8" if limits.int8_macs_per_second else ""
    yield (
        f"least time of {name} for {counted(size.rows, 'row')} after {counted(size.context, 'token')}, at "
        f"{limits.bytes_per_second / 1e9:,.1f} GB/s and {limits.macs_per_second / 1e9:,.1f} GMAC/s{int8}"
    )
    rows = [HEADINGS]
    for kind in kinds:
        share = f"{kind.seconds / total:.1%}" if total else ""
        figures = (f"{kind.bytes / 1e6:,.3f}", f"{kind.macs / 1e6:,.3f}", f"{kind.seconds * 1e6:,.1f}", share)
        rows.append((kind.kind, f"{kind.count}", *figures, kind.bound))
    num_bytes, macs = sum(kind.bytes for kind in kinds), sum(kind.macs for kind in kinds)
    rows.append(("all", "", f"{num_bytes / 1e6:,.3f}", f"{macs / 1e6:,.3f}", f"{total * 1e6:,.1f}", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for kind_name, *cells, bound in rows:
        padded = [cell.rjust(width) for cell, width in zip(cells, widths[1:-1], strict=True)]
        yield "  ".join([kind_name.ljust(widths[0]), *padded, bound]).rstrip()
