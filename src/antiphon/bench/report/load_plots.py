"""Plots of figures against load, for runs at several request rates or concurrencies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msgspec import structs

from antiphon.bench.report.chart import PlotSeries
from antiphon.bench.report.plots import Line, Plot, line_plot
from antiphon.bench.report.runs import LOADS, RunGroup, ServeRun

RunFigure = Callable[[ServeRun], float | None]


def load_plots(groups: Sequence[RunGroup]) -> list[Plot]:
    """Return plots against load; empty unless the runs have at least two loads of the same kind."""
    groups = _by_load(groups)
    kinds = {run.load[0] for group in groups for run in group.runs if run.load is not None}
    loads = {run.load for group in groups for run in group.runs if run.load is not None}
    if len(kinds) != 1 or len(loads) < 2:
        return []
    [kind] = kinds
    has_goodput = any(run.goodput() is not None for group in groups for run in group.runs)
    figures: dict[str, RunFigure] = {"goodput": ServeRun.goodput} if has_goodput else {}
    if len(groups) == 1 or not has_goodput:
        figures = {"completed": lambda run: run.figure("requests_per_second"), **figures}
    title = "Goodput against load" if has_goodput else "Completed requests against load"
    milliseconds, rate = "milliseconds", "requests per second"
    plots = [
        ("load-goodput", title, rate, figures),
        ("load-tokens", "Throughput against load", "output tokens per second",
         {"output tokens": lambda run: run.figure("output_tokens_per_second")}),
        ("load-ttft", "Time to first token against load", milliseconds, _percentiles("ttft")),
        ("load-tpot", "Time per output token against load", milliseconds, _percentiles("tpot")),
    ]  # fmt: skip
    x = f"load: {LOADS[kind]}", f"at {{}} {LOADS[kind]}"
    made = [
        line_plot(name, title, lines, x, unit)
        for name, title, unit, chosen in plots
        if (lines := _lines(groups, chosen))
    ]
    return [_with_diagonal(made[0]), *made[1:]] if kind == "request_rate" and made[0].name == "load-goodput" else made


def _by_load(groups: Sequence[RunGroup]) -> list[RunGroup]:
    """Merge files that have a run each into a group, so that their runs are points of one line."""
    if len(groups) > 1 and all(len(group.runs) == 1 for group in groups):
        return [RunGroup("runs", [run for group in groups for run in group.runs])]
    return list(groups)


def _percentiles(name: str) -> dict[str, RunFigure]:
    return {"p50": lambda run: run.latency(name, "p50"), "p99": lambda run: run.latency(name, "p99")}


def _lines(groups: Sequence[RunGroup], figures: dict[str, RunFigure]) -> list[Line]:
    """Return a line per group and figure with values, labelled by group if there are several."""
    lines: list[Line] = []
    for group in groups:
        for label, figure in figures.items():
            points = sorted(
                (run.load[1], value)
                for run in group.runs
                if run.load is not None and (value := figure(run)) is not None
            )
            if points:
                lines.append((f"{group.label}, {label}" if len(groups) > 1 else label, points))
    return lines


def _with_diagonal(plot: Plot) -> Plot:
    """Add a guide on which completed requests equal sent requests; a curve if only one axis is logarithmic."""
    x, y = plot.chart.x, plot.chart.y
    begin, end = max(x.low, y.low), min(x.high, y.high)
    if begin >= end:
        return plot
    points = [begin + (end - begin) * part / 40 for part in range(41)]
    series = [*plot.chart.series, PlotSeries("", 0, points, points, "guide")]
    text = "The dashed line is the load itself: as many requests as were sent."
    return replace(plot, text=text, chart=structs.replace(plot.chart, series=series))
