"""`Profile`: distribution of step times over kinds of instructions and time outside of native code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from antiphon.aligned import aligned
from antiphon.engine.core import EngineCore
from antiphon.engine.telemetry import StepRecord
from antiphon.ops.native.program import Program
from antiphon.ops.native.program.limits import measure_limits
from antiphon.ops.program.describe import totals
from antiphon.ops.program.profile import KindTime, MachineLimits, ProgramTime, difference, program_time

HEADINGS = ("INSTRUCTION", "CALLS", "MS", "OF STEP", "GB/S", "GMAC/S", "OF LIMIT")


@dataclass(frozen=True)
class ModelProfile:
    """Steps of one model, and the times of its instructions if they are a program that can be timed."""

    name: str
    steps: list[StepRecord]
    program: ProgramTime | None

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


class Profile:
    """Steps since the creation of the profile, of the models resident then. It is created and read between steps.

    `limits` are those of the machine; None measures them.
    """

    def __init__(self, core: EngineCore, limits: MachineLimits | None = None) -> None:
        self._core = core
        self._first_step = core.telemetry.num_steps
        self._programs: dict[str, Program] = {}
        for name, slot in core.slots.items():
            # executors without recording have no program
            program: Program | None = getattr(slot.executor, "program", None)
            if program is not None:
                self._programs[name] = program
        sizes = [totals(program.recording).weight_bytes for program in self._programs.values()]
        self._limits = limits or (measure_limits(max(sizes)) if sizes else None)
        self._before = {name: program.profiles() for name, program in self._programs.items()}
        for program in self._programs.values():
            program.profile(True)

    def models(self) -> list[ModelProfile]:
        """Return the profiles of the models that have run a step."""
        steps = [step for step in self._core.telemetry.steps if step.index >= self._first_step]
        by_model = {name: [step for step in steps if step.model == name] for name in self._core.slots}
        return [ModelProfile(name, own, self._time(name)) for name, own in by_model.items() if own]

    def _time(self, name: str) -> ProgramTime | None:
        program = self._programs.get(name)
        if program is None:
            return None
        pairs = zip(program.profiles(), self._before[name], strict=True)
        return program_time(program.recording, [difference(after, before) for after, before in pairs])

    def lines(self) -> list[str]:
        lines = [line for model in self.models() for line in self._model_lines(model)]
        return lines or ["profile: no step has run"]

    def _model_lines(self, model: ModelProfile) -> Iterator[str]:
        steps, seconds, limits = model.steps, model.seconds, self._limits
        tokens = sum(step.decode_tokens + step.prefill_tokens for step in steps)
        yield f"{model.name}: {len(steps)} steps of {tokens} tokens in {seconds * 1e3:.1f} ms"
        if model.program is None or limits is None:
            yield "  operation by operation: there is no program whose instructions could be timed"
        else:
            yield from kind_lines(model.program.kinds, seconds, limits)
            yield (
                f"  limits of this machine: {limits.bytes_per_second / 1e9:.1f} GB/s read from as many bytes as the "
                f"weights have, {limits.macs_per_second / 1e9:.1f} GMAC/s of fp32"
                + (f", {limits.int8_macs_per_second / 1e9:.1f} of int8" if limits.int8_macs_per_second else "")
            )
        parts: dict[str, float] = {}
        for step in steps:
            for part, taken in step.parts.items():
                parts[part] = parts.get(part, 0.0) + taken
        native = sum(step.native_seconds for step in steps)
        split = ", ".join(f"{part} {taken / len(steps) * 1e6:.0f}" for part, taken in parts.items())
        yield f"  microseconds of a step: {split}"
        if native:
            outside = 100 * (seconds - native) / seconds
            sampling = 100 * parts.get("sample", 0.0) / seconds
            yield f"  outside the program: {outside:.1f} % of a step, of which sampling {sampling:.1f} %"


def kind_lines(kinds: Sequence[KindTime], seconds: float, limits: MachineLimits) -> Iterator[str]:
    """Yield a table of the kinds of instructions that ran, in steps of `seconds` in total."""
    rows = [HEADINGS, *(_cells(kind, seconds, limits) for kind in kinds if kind.calls)]
    yield from (f"  {line}" for line in aligned(rows, left={0}))


def _cells(kind: KindTime, seconds: float, limits: MachineLimits) -> tuple[str, ...]:
    bounded = kind.limit_seconds(limits)
    return (
        kind.kind,
        f"{kind.calls:,}",
        f"{kind.seconds * 1e3:.2f}",
        f"{100 * kind.seconds / seconds:.1f} %",
        f"{kind.bytes / kind.seconds / 1e9:.1f}" if kind.bytes else "",
        f"{kind.macs / kind.seconds / 1e9:.1f}" if kind.macs else "",
        f"{100 * bounded / kind.seconds:.0f} %" if bounded else "",
    )
