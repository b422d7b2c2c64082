"""Figures against load, for runs at several request rates or concurrencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from antiphon.bench.report.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Reading
from antiphon.bench.report.plots import Entry, Plot
from antiphon.bench.report.runs import LOADS, Group, ServeRun
from antiphon.bench.report.scales import LOG_SPAN, Scale, latency_scale, linear_scale, short

#: Loads that span more than this are on a logarithmic axis.
LOAD_SPAN = 12.0


@dataclass(frozen=True)
class _Line:
    """One figure of one group at its loads, in ascending order."""

    label: str
    index: int
    points: Sequence[tuple[float, float]]


def load_plots(groups: Sequence[Group]) -> list[Plot]:
    """Empty if the runs have not at least two loads of one kind."""
    groups = _by_load(groups)
    kinds = {run.load[0] for group in groups for run in group.runs if run.load is not None}
    loads = {run.load for group in groups for run in group.runs if run.load is not None}
    if len(kinds) != 1 or len(loads) < 2:
        return []
    [kind] = kinds
    has_goodput = any(run.goodput() is not None for group in groups for run in group.runs)
    done = _lines(groups, [("completed", lambda run: run.figure("requests_per_second"))], not has_goodput)
    good = _lines(groups, [("goodput", ServeRun.goodput)], has_goodput and len(groups) > 1)
    if len(groups) == 1:
        good = [_Line("goodput", 1, line.points) for line in good]
        requests = done + good
    else:
        requests = good if has_goodput else done
    title = "Goodput against load" if has_goodput else "Completed requests against load"
    tokens = _lines(groups, [("output tokens", lambda run: run.figure("output_tokens_per_second"))], len(groups) > 1)
    made = [
        _plot("load-goodput", title, kind, "requests per second", requests, has_diagonal=kind == "request_rate"),
        _plot("load-tokens", "Throughput against load", kind, "output tokens per second", tokens),
        _plot("load-ttft", "Time to first token against load", kind, "milliseconds", _percentiles(groups, "ttft")),
        _plot("load-tpot", "Time per output token against load", kind, "milliseconds", _percentiles(groups, "tpot")),
    ]
    return [plot for plot in made if plot is not None]


def _by_load(groups: Sequence[Group]) -> list[Group]:
    """Single runs at different loads are points of one line."""
    if len(groups) > 1 and all(len(group.runs) == 1 for group in groups):
        return [Group("runs", [run for group in groups for run in group.runs])]
    return list(groups)


def _percentiles(groups: Sequence[Group], name: str) -> list[_Line]:
    def part(percent: str) -> tuple[str, Callable[[ServeRun], float | None]]:
        return percent, lambda run: run.latency(name, percent)

    return _lines(groups, [part("p50"), part("p99")], len(groups) > 1)


def _lines(
    groups: Sequence[Group], figures: Sequence[tuple[str, Callable[[ServeRun], float | None]]], named: bool
) -> list[_Line]:
    """A line for each group and figure that has a value; `named` by the group as well."""
    lines: list[_Line] = []
    for group in groups:
        for label, figure in figures:
            points = sorted(
                (run.load[1], value)
                for run in group.runs
                if run.load is not None and (value := figure(run)) is not None
            )
            if points:
                text = f"{group.label}, {label}" if named and len(groups) > 1 else label
                lines.append(_Line(text, len(lines), points))
    return lines


def _plot(
    name: str, title: str, kind: str, unit: str, lines: Sequence[_Line], has_diagonal: bool = False
) -> Plot | None:
    if not lines:
        return None
    loads = sorted({x for line in lines for x, _ in line.points})
    values = [y for line in lines for _, y in line.points]
    is_wide = loads[-1] / loads[0] > LOAD_SPAN
    x = Scale(loads[0] * 0.9, loads[-1] * 1.1, LEFT, RIGHT, True) if is_wide else linear_scale(loads, LEFT, RIGHT)
    is_log = unit == "milliseconds" and min(values) > 0 and max(values) / min(values) > LOG_SPAN
    y = latency_scale(values, BOTTOM, TOP) if is_log else linear_scale(values, BOTTOM, TOP)
    chart = Chart(x, y, f"load: {LOADS[kind]}", unit + (", logarithmic" if is_log else ""))
    if has_diagonal:
        chart.diagonal()
    for line in lines:
        chart.line(line.points, line.index)
        chart.dots(line.points, line.index)
    tables = [dict(line.points) for line in lines]
    chart.readings(
        [
            Reading(
                load,
                f"at {load:g} {LOADS[kind]}",
                [f"{line.label}: {short(at[load])}" for line, at in zip(lines, tables, strict=True) if load in at],
            )
            for load in loads
        ]
    )
    text = "The dashed line is the load itself: as many requests as were sent." if has_diagonal else ""
    rows = [
        [f"{load:g}", *(f"{at[load]:,.2f}" if load in at else "–" for at in tables)] for load in loads
    ]  # fmt: skip
    return Plot(
        name, title, text, chart.svg(name), [LOADS[kind], *(line.label for line in lines)], rows,
        [Entry(line.label, line.index, _text(line, unit, kind)) for line in lines],
    )  # fmt: skip


def _text(line: _Line, unit: str, kind: str) -> str:
    (low, first), (high, last) = line.points[0], line.points[-1]
    most = max(line.points, key=lambda point: point[1])
    peak = "" if most[0] in (low, high) else f", at most {short(most[1])} at {most[0]:g}"
    return f"{short(first)} {unit} at {low:g} {LOADS[kind]}, {short(last)} at {high:g}{peak}."
