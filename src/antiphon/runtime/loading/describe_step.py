"""Decode step of a model on a GPU, launch by launch, for `antiphon info --program --device cuda`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from antiphon.aligned import aligned
from antiphon.counted import counted
from antiphon.errors import UnrecordableError, UnsupportedError
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.ops.program.floor import UniformStep
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.loading.config import PAGE_TYPES
from antiphon.runtime.loading.device_sizes import default_sizes
from antiphon.runtime.loading.loading import LoadedModel, load_resolved
from antiphon.runtime.loading.machine_limits import GivenLimits, card_limits
from antiphon.weights.catalog.resolve import ResolvedModel

if TYPE_CHECKING:
    from antiphon.ops.triton.kernel_launch import Call, Launch
    from antiphon.ops.triton.program.costs import LaunchCost

HEADINGS = ("LAUNCH", "COUNT", "KERNEL", "GRID", "MB", "MMAC", "AT BEST µS", "MEASURED µS", "OF LIMIT")


@dataclass
class LaunchKind:
    """Launches that differ only in the layer, with the sums of their costs and times."""

    name: str
    kernel: str
    grid: str
    count: int = 0
    bytes: float = 0.0
    macs: float = 0.0
    least: float = 0.0  # minimum time in seconds
    measured: float = 0.0


def describe_step(resolved: ResolvedModel, device: Device, size: UniformStep, given: GivenLimits) -> list[str]:
    """Load the model on the device, and describe its decode step. Limits that are not given are measured."""
    return step_lines(load_resolved(resolved, device=device), size, given)


def step_lines(loaded: LoadedModel, size: UniformStep, given: GivenLimits) -> list[str]:
    """Return the launches of a step as a readable table, with measured times on a GPU."""
    from antiphon.executor.device.measured_step import MeasuredStep
    from antiphon.executor.device.trial_rows import TrialRows

    device, decoder = loaded.device, loaded.model.part(TokenDecoder)
    if decoder is None:
        raise UnsupportedError(f"{loaded.name} generates no tokens; it has no decode step")
    page_type = PAGE_TYPES[default_sizes(device).key_type]
    limits = card_limits(given, device)
    try:
        requests = TrialRows(decoder, size.rows, size.context + 1, page_type, device.torch)
        step = MeasuredStep(decoder, device, requests, size.context, loaded.tokenizer.vocab_size)
    except UnrecordableError as error:
        return [f"decode step: runs operation by operation: {error}"]
    except RuntimeError as error:
        raise device.translate(error) from error
    is_timed = device.stream is not None
    times = step.launch_seconds() if is_timed else []
    kinds = launch_kinds(step.launches, step.costs(), times, limits)
    return [
        f"decode step on {device.name} ({device.limits.hardware}) for {counted(size.rows, 'row')} after "
        f"{counted(size.context, 'token')}: {counted(len(step.launches), 'launch', 'launches')}, at "
        f"{limits.bytes_per_second / 1e9:,.1f} GB/s and {limits.macs_per_second / 1e9:,.1f} GMAC/s",
        *_table(kinds, is_timed),
        *(_graph_lines(sum(kind.least for kind in kinds), step.graph_seconds()) if is_timed else ()),
    ]


def launch_kinds(
    launches: Sequence[Launch | Call], costs: Sequence[LaunchCost], times: Sequence[float], limits: MachineLimits
) -> list[LaunchKind]:
    """Group launches of equal kernel, grid and cost, in the order of their first. Without `times`, `measured` is 0."""
    kinds: dict[tuple[object, ...], LaunchKind] = {}
    for launch, cost, seconds in zip(launches, costs, times or [0.0] * len(launches), strict=True):
        kernel, grid = _kernel(launch), " × ".join(map(str, getattr(launch, "grid", ())))
        kind = kinds.setdefault(
            (launch.name, kernel, grid, cost.bytes, cost.macs), LaunchKind(launch.name, kernel, grid)
        )
        kind.count += 1
        kind.bytes += cost.bytes
        kind.macs += cost.macs
        kind.least += cost.seconds(limits)
        kind.measured += seconds
    return list(kinds.values())


def _kernel(launch: Launch | Call) -> str:
    function = getattr(launch, "kernel", None) or getattr(launch, "function", None)
    inner = getattr(function, "fn", function)  # the Python function of a kernel
    return str(getattr(inner, "__name__", inner))


def _table(kinds: Sequence[LaunchKind], is_timed: bool) -> Iterator[str]:
    total = LaunchKind("all", "", "")
    for kind in kinds:
        for name in ("count", "bytes", "macs", "least", "measured"):
            setattr(total, name, getattr(total, name) + getattr(kind, name))
    rows = [HEADINGS, *(_cells(kind) for kind in (*kinds, total))]
    if not is_timed:
        rows = [row[:-2] for row in rows]
    return aligned(rows, left={HEADINGS.index(name) for name in ("LAUNCH", "KERNEL", "GRID")})


def _cells(kind: LaunchKind) -> tuple[str, ...]:
    share = f"{kind.least / kind.measured:.0%}" if kind.measured and kind.least else ""
    figures = (kind.bytes / 1e6, kind.macs / 1e6), (kind.least * 1e6, kind.measured * 1e6)
    costs, times = ([f"{value:,.{digits}f}" for value in pair] for pair, digits in zip(figures, (3, 1), strict=True))
    return (kind.name, f"{kind.count}", kind.kernel, kind.grid, *costs, *times, share)


def _graph_lines(least: float, seconds: float) -> Iterator[str]:
    yield f"as one graph, in which kernels overlap: {seconds * 1e6:,.1f} µs, {least / seconds:.0%} of the limit"
