"""Minimum time of a phase, by the bytes and operations of each part of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from operator import add

from antiphon.ops.program import Recording
from antiphon.ops.program.floor import Cost, UniformStep, instruction_cost
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.analysis.sections import Section, Sections

#: Relative difference below which times are equal, since sums of many small numbers round.
TIE = 1e-9


@dataclass(frozen=True)
class PartFloor:
    """Sums over instructions, each of which is limited by its bytes or by its operations."""

    bytes: float = 0.0
    macs: float = 0.0
    seconds: float = 0.0
    seconds_of_bytes: float = 0.0
    seconds_of_operations: float = 0.0

    def __add__(self, other: PartFloor) -> PartFloor:
        return PartFloor(*map(add, astuple(self), astuple(other)))

    @classmethod
    def of(cls, cost: Cost, limits: MachineLimits) -> PartFloor:
        times = cost.seconds(limits), cost.seconds_of_bytes(limits), cost.seconds_of_operations
        return cls(cost.bytes, cost.macs, *times)

    @property
    def is_bound_by_operations(self) -> bool:
        """Whether the operations take at least as long as the bytes."""
        return self.seconds_of_operations >= self.seconds_of_bytes * (1 - TIE)

    @property
    def bound(self) -> str:
        return "operations" if self.is_bound_by_operations else "bytes"


@dataclass(frozen=True)
class ProgramRun:
    """Program with the size of one run."""

    recording: Recording
    size: UniformStep


@dataclass(frozen=True)
class Phase:
    """Programs that run for a batch of requests, one after the other, and the logits that tokens are sampled from."""

    name: str
    runs: tuple[ProgramRun, ...]
    sections: Sections
    num_logits: int = 0  # per request

    def floors(self, limits: MachineLimits) -> dict[Section, PartFloor]:
        """Return the floor of each section that has a cost, in the order of `Section`."""
        found: dict[Section, PartFloor] = {}
        for run in self.runs:
            for instruction in run.recording.instructions:
                cost = instruction_cost(instruction, run.size, limits)
                if cost.bytes or cost.macs:
                    section = self.sections.of(instruction)
                    found[section] = found.get(section, PartFloor()) + PartFloor.of(cost, limits)
        if self.num_logits:
            # A comparison per logit. The logits have just been written, and stay in the caches as activations do.
            drawn = Cost(0.0, self.runs[-1].size.rows * self.num_logits, limits.macs_per_second)
            found[Section.SAMPLING] = PartFloor.of(drawn, limits)
        return {section: found[section] for section in Section if section in found}

    def floor(self, limits: MachineLimits) -> PartFloor:
        return total(list(self.floors(limits).values()))

    def of_batch(self, rows: int) -> Phase:
        """Return this phase for another number of requests."""
        return replace(self, runs=tuple(replace(run, size=replace(run.size, rows=rows)) for run in self.runs))

    def after(self, context: int) -> Phase:
        """Return this phase after another number of tokens."""
        return replace(self, runs=tuple(replace(run, size=replace(run.size, context=context)) for run in self.runs))


def total(floors: Sequence[PartFloor]) -> PartFloor:
    return sum(floors, PartFloor())


def crossover(one: PartFloor, two: PartFloor) -> int | None:
    """Return the smallest batch in which operations take at least as long as bytes; None if no batch is.

    `one` and `two` are the floors of 1 and of 2 requests; both times grow by the same amount with each request.
    """
    lead = one.seconds_of_operations - one.seconds_of_bytes
    gain = two.seconds_of_operations - two.seconds_of_bytes - lead
    if one.is_bound_by_operations:
        return 1
    if gain <= TIE * one.seconds_of_bytes:
        return None
    return 1 + math.ceil(-lead / gain * (1 - TIE))
