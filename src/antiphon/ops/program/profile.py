"""Where the time of a program's runs went, by kind of instruction, against what the machine can do at best."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.ops.native.extension import extension
from antiphon.ops.program.program import Program
from antiphon.ops.threads import default_threads

#: The read rate is measured on a buffer of the weights' size, so that caches help it as much as they help the weights.
MOST_READ_BYTES = 1 << 30
READ_REPEATS = 5
MULTIPLY_SECONDS = 0.05


@dataclass(frozen=True)
class MachineLimits:
    """The best of a short measurement, all threads together."""

    bytes_per_second: float
    macs_per_second: float  # of fp32
    int8_macs_per_second: float  # 0 where products do not use the processor's int8 instructions

    @classmethod
    def measure(cls, weight_bytes: int, threads: int | None = None) -> MachineLimits:
        threads = threads or default_threads()
        size = min(max(weight_bytes, 1 << 20), MOST_READ_BYTES)
        return cls(
            extension().read_rate(size, READ_REPEATS, threads, 0),
            extension().multiply_rate(MULTIPLY_SECONDS, threads, 0),
            extension().int8_multiply_rate(MULTIPLY_SECONDS, threads),
        )


@dataclass
class KindTime:
    """Runs of the instructions of one kind: their time, and the bytes and operations that they needed."""

    kind: str
    calls: int = 0
    seconds: float = 0.0
    bytes: float = 0.0
    macs: float = 0.0
    is_int8: bool = False

    def limit_seconds(self, limits: MachineLimits) -> float:
        """The least time that the machine could have needed for the bytes and operations that count."""
        rate = limits.int8_macs_per_second if self.is_int8 and limits.int8_macs_per_second else limits.macs_per_second
        return max(self.bytes / limits.bytes_per_second, self.macs / rate)


@dataclass
class ProgramTime:
    """All kinds, the longest first."""

    kinds: list[KindTime] = field(default_factory=list)
    runs: int = 0

    @property
    def seconds(self) -> float:
        return sum(kind.seconds for kind in self.kinds)


def program_time(program: Program) -> ProgramTime:
    """The profiled runs of a program so far."""
    kinds: dict[str, KindTime] = {}
    runs = 0
    for instruction, figures in zip(program.recording.instructions, program.profiles(), strict=True):
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
