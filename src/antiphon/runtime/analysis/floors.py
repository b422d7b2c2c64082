"""The least time of a phase, by the bytes and operations of each part of the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from operator import add

from antiphon.ops.program import Recording
from antiphon.ops.program.floor import Cost, UniformStep, instruction_cost
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.analysis.sections import Section, Sections

#: Times that differ by a smaller share are equal: sums of many small numbers round.
TIE = 1e-9


@dataclass(frozen=True)
class PartFloor:
    """The sums over instructions, each of which is limited by its bytes or by its operations."""

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
        """Whether its operations take at least as long as its bytes."""
        return self.seconds_of_operations >= self.seconds_of_bytes * (1 - TIE)

    @property
    def bound(self) -> str:
        return "operations" if self.is_bound_by_operations else "bytes"


@dataclass(frozen=True)
class ProgramRun:
    """A program, and what one run of it is given."""

    recording: Recording
    size: UniformStep


@dataclass(frozen=True)
class Phase:
    """What is run for a batch of requests: programs one after the other, and the logits that tokens are drawn from."""

    name: str
    runs: tuple[ProgramRun, ...]
    sections: Sections
    num_logits: int = 0  # of a request

    def floors(self, limits: MachineLimits) -> dict[Section, PartFloor]:
        """By section; those that cost nothing are left out."""
        found: dict[Section, PartFloor] = {}
        for run in self.runs:
            for instruction in run.recording.instructions:
                cost = instruction_cost(instruction, run.size, limits)
                if cost.bytes or cost.macs:
                    section = self.sections.of(instruction)
                    found[section] = found.get(section, PartFloor()) + PartFloor.of(cost, limits)
        if self.num_logits:
            # A comparison for each logit. They have just been written, and stay in the caches as activations do.
            drawn = Cost(0.0, self.runs[-1].size.rows * self.num_logits, limits.macs_per_second)
            found[Section.SAMPLING] = PartFloor.of(drawn, limits)
        return {section: found[section] for section in Section if section in found}

    def floor(self, limits: MachineLimits) -> PartFloor:
        return total(list(self.floors(limits).values()))

    def of_batch(self, rows: int) -> Phase:
        """The same phase for another number of requests."""
        return replace(self, runs=tuple(replace(run, size=replace(run.size, rows=rows)) for run in self.runs))

    def after(self, context: int) -> Phase:
        """The same phase after another number of tokens."""
        return replace(self, runs=tuple(replace(run, size=replace(run.size, context=context)) for run in self.runs))


def total(floors: Sequence[PartFloor]) -> PartFloor:
    return sum(floors, PartFloor())


def crossover(one: PartFloor, two: PartFloor) -> int | None:
    """The batch from which on operations take at least as long as bytes, given the floors of 1 and of 2 requests.

    None: there is no such batch. Both times grow by the same amount with each request.
    """
    lead = one.seconds_of_operations - one.seconds_of_bytes
    gain = two.seconds_of_operations - two.seconds_of_bytes - lead
    if one.is_bound_by_operations:
        return 1
    if gain <= TIE * one.seconds_of_bytes:
        return None
    return 1 + math.ceil(-lead / gain * (1 - TIE))
