"""Time of a program's runs by kind of instruction, beside the machine's minimum for the same bytes and operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.ops.program.recording import Recording

#: Totals of one instruction over all profiled runs: calls, nanoseconds, rows, pairs of query and key, and keys.
Figures = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class MachineLimits:
    """Peak rates of a machine, all threads together."""

    bytes_per_second: float
    macs_per_second: float  # fp32 multiply-accumulates
    int8_macs_per_second: float  # 0 if products do not use int8 instructions of the processor


@dataclass
class KindTime:
    """Time of all runs of the instructions of one kind, and the bytes and operations that they needed."""

    kind: str
    calls: int = 0
    seconds: float = 0.0
    bytes: float = 0.0
    macs: float = 0.0
    is_int8: bool = False

    def limit_seconds(self, limits: MachineLimits) -> float:
        """Return the minimum seconds that the machine needs for these bytes and operations."""
        rate = limits.int8_macs_per_second if self.is_int8 and limits.int8_macs_per_second else limits.macs_per_second
        return max(self.bytes / limits.bytes_per_second, self.macs / rate)


@dataclass
class ProgramTime:
    """Times by kind of instruction, longest first, and the number of profiled runs."""

    kinds: list[KindTime] = field(default_factory=list)
    runs: int = 0

    @property
    def seconds(self) -> float:
        return sum(kind.seconds for kind in self.kinds)


def difference(after: Figures, before: Figures) -> Figures:
    """Return the figures of the runs between two readings."""
    calls, nanoseconds, rows, pairs, keys = (new - old for new, old in zip(after, before, strict=True))
    return calls, nanoseconds, rows, pairs, keys


def program_time(recording: Recording, profiles: Sequence[Figures]) -> ProgramTime:
    """Sum the profiled runs of a recording's program by kind; `profiles` has an entry for each instruction."""
    kinds: dict[str, KindTime] = {}
    runs = 0
    for instruction, figures in zip(recording.instructions, profiles, strict=True):
        calls, nanoseconds, rows, pairs, keys = figures
        weight = instruction.weight
        types = "" if weight is None else " " + "+".join(weight.bytes_by_type)
        name = instruction.operation + types
        kind = kinds.setdefault(name, KindTime(name, is_int8=instruction.is_int8))
        kind.calls += calls
        kind.seconds += nanoseconds * 1e-9
        kind.bytes += calls * instruction.weight_bytes() + keys * instruction.bytes_per_key()
        kind.macs += rows * instruction.macs_per_row() + pairs * instruction.macs_per_pair()
        runs = max(runs, calls)
    return ProgramTime(sorted(kinds.values(), key=lambda kind: -kind.seconds), runs)
