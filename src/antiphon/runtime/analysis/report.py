"""Analysis as lines of readable text, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from antiphon.aligned import aligned
from antiphon.counted import counted
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.analysis.analysis import DECODE, EMBED, ENCODE, PREFILL, Analysis
from antiphon.runtime.analysis.floors import PartFloor, Phase, crossover, total
from antiphon.runtime.analysis.reached import Reached
from antiphon.runtime.frontend.profile import kind_lines

PART_HEADINGS = ("PART", "MB", "MMAC", "AT BEST MS", "SHARE", "LIMITED BY")
BATCH_HEADING = "OPERATIONS FROM BATCH"
PAGE_HEADINGS = ("PAGES", "BYTES PER TOKEN", "MB PER REQUEST", "REQUESTS THAT FIT")


def analysis_lines(analysis: Analysis) -> Iterator[str]:
    """Yield the lines of an analysis, without measurements of a run."""
    machine = analysis.machine
    yield (
        f"{analysis.name} on {machine.name} ({machine.hardware}): {analysis.parameters / 1e6:,.1f} M parameters, "
        f"{analysis.file_bytes / 1e6:,.1f} MB in files, {analysis.weight_bytes / 1e6:,.1f} MB of weights in memory"
    )
    yield f"limits, {'measured' if analysis.is_measured else 'given'}: {limits_text(analysis.limits)}"
    for phase in analysis.phases.values():
        yield ""
        yield from _phase_lines(analysis, phase)
    if analysis.pages:
        yield ""
        yield from _page_lines(analysis)
    if analysis.unknown:
        yield ""
        yield from (f"not known: {sentence}" for sentence in analysis.unknown)


def limits_text(limits: MachineLimits) -> str:
    int8 = f", {limits.int8_macs_per_second / 1e9:,.1f} GMAC/s of int8" if limits.int8_macs_per_second else ""
    return f"{limits.bytes_per_second / 1e9:,.1f} GB/s, {limits.macs_per_second / 1e9:,.1f} GMAC/s{int8}"


def _phase_lines(analysis: Analysis, phase: Phase) -> Iterator[str]:
    floors, limits = phase.floors(analysis.limits), analysis.limits
    whole = total(list(floors.values()))
    requests = counted(analysis.batch, "request")
    rate = phase_tokens(analysis, phase) / whole.seconds
    sentences = {
        PREFILL: f"prefill of {requests} of {counted(analysis.prompt, 'token')}: first token after "
        f"{_milliseconds(whole)} at best, {rate:,.0f} tokens/s",
        DECODE: f"decode of {requests} after {counted(analysis.context, 'token')}: {_milliseconds(whole)} a token at "
        f"best, {rate:,.1f} tokens/s",
        ENCODE: f"encode of {counted(analysis.batch, 'input')} of {counted(phase.runs[0].size.states, 'state')}: "
        f"{_milliseconds(whole)} at best",
        EMBED: f"embed of {counted(analysis.batch, 'text')} of {counted(analysis.prompt, 'token')}: "
        f"{_milliseconds(whole)} at best, {rate:,.0f} tokens/s",
    }
    yield f"{sentences[phase.name]}; limited by {whole.bound}"
    named = {**{str(section): floor for section, floor in floors.items()}, "all": whole}
    rows = [PART_HEADINGS, *(_part_cells(name, floor, whole) for name, floor in named.items())]
    if phase.name == DECODE:
        batches = crossovers(phase, limits)
        cells = [BATCH_HEADING, *("never" if batches[name] is None else f"{batches[name]:,}" for name in named)]
        rows = [(*row, cell) for row, cell in zip(rows, cells, strict=True)]
    yield from (f"  {line}" for line in aligned(rows, left={0, 5}))
    if phase.name == DECODE and batches["all"] is not None:
        yield (
            f"  with {counted(batches['all'], 'request')} or more a step is limited by operations, with fewer by "
            "memory bandwidth"
            if batches["all"] > 1
            else "  a step of any batch is limited by operations"
        )
    elif phase.name == DECODE:
        yield "  a step of any batch is limited by memory bandwidth: each request reads keys and values of its own"


def phase_tokens(analysis: Analysis, phase: Phase) -> int:
    """Return the number of tokens that a phase computes, or of inputs that it encodes."""
    return analysis.batch * (analysis.prompt if phase.name in (PREFILL, EMBED) else 1)


def crossovers(phase: Phase, limits: MachineLimits) -> dict[str, int | None]:
    """Return the smallest batch limited by operations, by section and for all; None if no batch is."""
    one, two = (phase.of_batch(rows).floors(limits) for rows in (1, 2))
    found = {str(section): crossover(one[section], two[section]) for section in one}
    return found | {"all": crossover(total(list(one.values())), total(list(two.values())))}


def _milliseconds(floor: PartFloor) -> str:
    return f"{floor.seconds * 1e3:,.2f} ms"


def _part_cells(name: str, floor: PartFloor, whole: PartFloor) -> tuple[str, ...]:
    figures = f"{floor.bytes / 1e6:,.3f}", f"{floor.macs / 1e6:,.3f}", f"{floor.seconds * 1e3:,.3f}"
    return (name, *figures, f"{floor.seconds / whole.seconds:.1%}", floor.bound)


def _page_lines(analysis: Analysis) -> Iterator[str]:
    kv_bytes, most = analysis.kv_bytes, analysis.machine.sizes.max_running
    budget = "" if kv_bytes is None else f" in {kv_bytes / 1e6:,.1f} MB; at most {most} run at once"
    yield (
        f"keys and values of requests of {counted(analysis.context, 'token')}{budget}; the pages here are "
        f"{analysis.page_type}"
    )
    rows = [PAGE_HEADINGS]
    for pages in analysis.pages:
        fitting = "not known" if pages.num_fitting is None else f"{pages.num_fitting:,}"
        size = f"{pages.bytes_per_request / 1e6:,.3f}"
        rows.append((pages.type, f"{pages.bytes_per_token:,.0f}", size, fitting))
    yield from (f"  {line}" for line in aligned(rows, left={0}))


def reached_lines(analysis: Analysis, reached: Sequence[Reached]) -> Iterator[str]:
    """Yield the measured share of the floors, by phase and by kind of instruction."""
    for phase in reached:
        yield ""
        yield (
            f"{phase.phase}, measured: {phase.share:.0%} of its floor: {counted(phase.num_tokens, 'token')} in "
            f"{counted(phase.num_steps, 'step')} and {phase.seconds * 1e3:,.1f} ms "
            f"({phase.num_tokens / phase.seconds:,.1f} tokens/s), {phase.floor_seconds * 1e3:,.1f} ms at best"
        )
        if phase.kinds is None:
            yield "  kinds of instructions are not timed on this device: `antiphon info --program` has its launches"
        else:
            yield from kind_lines(phase.kinds, phase.total_seconds, analysis.limits)


def analysis_json(analysis: Analysis, reached: Sequence[Reached] = ()) -> dict[str, Any]:
    """Return an analysis as JSON, in bytes, seconds and multiply-accumulates."""
    machine, limits = analysis.machine, analysis.limits
    found: dict[str, Any] = {
        "model": analysis.name,
        "device": machine.name,
        "hardware": machine.hardware,
        "is_here": machine.device is not None,
        "batch": analysis.batch,
        "prompt": analysis.prompt,
        "context": analysis.context,
        "parameters": analysis.parameters,
        "file_bytes": analysis.file_bytes,
        "weight_bytes": analysis.weight_bytes,
        "limits": {**asdict(limits), "measured": analysis.is_measured},
        "phases": {name: _phase_json(analysis, phase) for name, phase in analysis.phases.items()},
        "not_known": analysis.unknown,
    }
    if analysis.pages:
        found["kv"] = {
            "budget_bytes": analysis.kv_bytes,
            "max_running": machine.sizes.max_running,
            "page_type": analysis.page_type,
            "pages": {
                pages.type: {
                    "bytes_per_token": pages.bytes_per_token,
                    "bytes_per_request": pages.bytes_per_request,
                    "requests_that_fit": pages.num_fitting,
                }
                for pages in analysis.pages
            },
        }
    if reached:
        found["reached"] = {phase.phase: _reached_json(phase, limits) for phase in reached}
    return found


def _phase_json(analysis: Analysis, phase: Phase) -> dict[str, Any]:
    floors = phase.floors(analysis.limits)
    whole = total(list(floors.values()))
    found = {
        **_floor_json(whole),
        "tokens_per_second": phase_tokens(analysis, phase) / whole.seconds,
        "parts": {str(section): _floor_json(floor) for section, floor in floors.items()},
    }
    if phase.name == DECODE:
        found["operations_from_batch"] = crossovers(phase, analysis.limits)
    return found


def _floor_json(floor: PartFloor) -> dict[str, Any]:
    return {"bytes": floor.bytes, "macs": floor.macs, "floor_seconds": floor.seconds, "limited_by": floor.bound}


def _reached_json(phase: Reached, limits: MachineLimits) -> dict[str, Any]:
    kinds = phase.kinds or []
    return {
        "steps": phase.num_steps,
        "tokens": phase.num_tokens,
        "seconds": phase.seconds,
        "floor_seconds": phase.floor_seconds,
        "share": phase.share,
        "kinds": {
            kind.kind: {
                "calls": kind.calls,
                "seconds": kind.seconds,
                "bytes": kind.bytes,
                "macs": kind.macs,
                "share_of_limit": kind.limit_seconds(limits) / kind.seconds if kind.seconds else None,
            }
            for kind in kinds
        },
    }
