"""Plots of runs: latency distributions, throughput over time, and figures against load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from msgspec import structs

from antiphon.bench.report.chart import (
    LOAD_SPAN,
    LOG_SPAN,
    Axis,
    Chart,
    Limit,
    Mark,
    PlotSeries,
    rounded,
    short,
)
from antiphon.bench.series import Curve, Timeline
from antiphon.counted import counted

MARKED = (50, 95, 99)  # percentiles
ROWS = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)

Plotted = TypeVar("Plotted")


@dataclass(frozen=True)
class Named(Generic[Plotted]):
    """Data of a run, with its label and the index of its colour."""

    label: str
    index: int
    data: Plotted


@dataclass(frozen=True)
class Plot:
    """Plot with its heading, its content in words, and its numbers as a table.

    The texts of the chart's series are its legend.
    """

    name: str
    title: str
    text: str
    chart: Chart
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


def curve_plot(name: str, title: str, things: str, curves: Sequence[Named[Curve]], limit: float | None = None) -> Plot:
    """Plot cumulative distributions with p50, p95 and p99 marked.

    `things` names the counted items; `limit` is an objective in milliseconds.
    """
    several = len(curves) > 1
    series, marks = [], []
    for one in curves:
        curve = one.data
        words = f"{_marks(curve)} ({_count(curve, things)})." if several else ""
        x, y = rounded([*curve.ms, curve.ms[-1]]), rounded([*curve.shares, 1.0])
        series.append(PlotSeries(one.label, one.index, x, y, text=words))
        for percent in MARKED:
            ms = curve.at(percent / 100)
            marks.append(Mark(ms, percent / 100, one.index, "" if several else f"p{percent} {short(ms)} ms"))
    ends = [ms for one in curves for ms in (one.data.ms[0], one.data.ms[-1])]
    chart = Chart(
        Axis.fit("milliseconds", ends, "within {} ms", LOG_SPAN, from_zero=False),
        Axis(f"share of {things}", 0.0, 1.0, is_share=True),
        series,
        marks,
        [] if limit is None else [Limit(limit, f"objective {limit:,g} ms")],
    )
    text = "Dots mark p50, p95 and p99."
    if not several:
        text = f"{_marks(curves[0].data)}; {_range(curves[0].data, things)}."
    headers = ["share", *(f"{one.label} (ms)" if several else "milliseconds" for one in curves)]
    return Plot(name, title, text, chart, headers, _curve_rows([one.data for one in curves]))


def _marks(curve: Curve) -> str:
    return ", ".join(f"p{percent} {short(curve.at(percent / 100))} ms" for percent in MARKED)


def _count(curve: Curve, things: str) -> str:
    return counted(curve.count, things.removesuffix("s"))


def _range(curve: Curve, things: str) -> str:
    if curve.count == 1:
        return _count(curve, things)
    return f"{_count(curve, things)} from {short(curve.ms[0])} to {short(curve.ms[-1])} ms"


def _curve_rows(curves: Sequence[Curve]) -> list[list[str]]:
    most = max(curve.count for curve in curves)
    names: dict[float, str] = {0: "least", 100: "most"}
    return [
        [names.get(percent, f"p{percent:g}"), *(f"{curve.at(percent / 100):,.2f}" for curve in curves)]
        for percent in ROWS
        if percent in (0, 50, 95, 99, 100) or most >= 100 / min(percent, 100 - percent)
    ]


def histogram_plot(name: str, title: str, things: str, figures: dict[str, Any]) -> Plot:
    """Plot the counts in equal bins, which results of every version have."""
    counts, low, high = figures["histogram"], figures["min"], figures["max"]
    width = (high - low) / len(counts) or max(high, 1.0) / len(counts)
    edges = [low + width * index for index in range(len(counts) + 1)]
    percentiles = [(mark, figures[mark]) for mark in ("p50", "p90", "p95", "p99") if mark in figures]
    words = [f"{mark} {short(ms)} ms" for mark, ms in percentiles]
    shown = {0, len(words) - 1} if words else set()
    chart = Chart(
        Axis.fit("milliseconds", edges, "{} ms", from_zero=low <= 0 or high / low >= LOG_SPAN),
        Axis.fit(f"number of {things}", counts, f"{{}} {things}"),
        [PlotSeries("", 0, rounded(edges), counts, "bars")],
        limits=[Limit(percentiles[index][1], words[index]) for index in sorted(shown)],
    )
    text = f"{', '.join(words)}; {figures['count']:,} {things} from {short(low)} to {short(high)} ms."
    rows = [[f"{edges[index]:,.2f}", f"{edges[index + 1]:,.2f}", f"{count:,}"] for index, count in enumerate(counts)]
    return Plot(name, title, text, chart, ["from (ms)", "to (ms)", things], rows)


def rate_plot(name: str, title: str, unit: str, lines: Sequence[tuple[Named[Timeline], Sequence[float]]]) -> Plot:
    """Plot the amounts of each interval as a rate over time."""
    series, failures = [], []
    for one, amounts in lines:
        timeline, width = one.data, one.data.bin_seconds
        rates = rounded(amount / width for amount in amounts)
        text = _rate_text(timeline, amounts, unit)
        is_filled = len(lines) == 1
        series.append(PlotSeries(one.label, one.index, _edges(timeline), rates, "steps", text, is_filled=is_filled))
        failures += [(position + 0.5) * width for position, count in enumerate(timeline.failed) if count]
    return _time_plot(name, title, unit, series, failures=failures)


def _rate_text(timeline: Timeline, amounts: Sequence[float], unit: str) -> str:
    seconds, failed = timeline.bin_seconds * len(amounts), sum(timeline.failed)
    text = (
        f"{short(sum(amounts) / seconds)} {unit} on average over {short(seconds)} s, at most "
        f"{short(max(amounts) / timeline.bin_seconds)} in an interval of {short(timeline.bin_seconds)} s."
    )
    return text + (f" Crosses mark the times at which {counted(failed, 'request')} failed." if failed else "")


def in_flight_plot(name: str, title: str, unit: str, lines: Sequence[Named[Timeline]]) -> Plot:
    """Plot the mean of each interval and, for a single run, its minimum and maximum."""
    series = []
    for one in lines:
        timeline = one.data
        values, band = timeline.in_flight, (timeline.in_flight_min, timeline.in_flight_max)
        text = f"{short(sum(values) / len(values))} {unit} on average, at most {max(band[1]):,}."
        if len(lines) == 1:
            text += " The line is the mean of an interval, the band reaches from its least to its most."
        low, high = band if len(lines) == 1 else ((), ())
        series.append(PlotSeries(one.label, one.index, _edges(timeline), values, "steps", text, low, high))
    return _time_plot(name, title, unit, series, [max(one.data.in_flight_max) for one in lines])


def _edges(timeline: Timeline) -> list[float]:
    return rounded(timeline.bin_seconds * position for position in range(len(timeline.tokens) + 1))


def _time_plot(
    name: str,
    title: str,
    unit: str,
    series: Sequence[PlotSeries],
    more: Sequence[float] = (),
    failures: Sequence[float] = (),
) -> Plot:
    """Plot steps over time. The `more` values must be inside the plot too."""
    several = len(series) > 1
    chart = Chart(
        Axis("seconds since the first request", 0.0, max(one.x[-1] for one in series), "at {} s"),
        Axis.fit(unit, [*more, *(value for one in series for value in one.y)], "{}" if several else f"{{}} {unit}"),
        series if several else [structs.replace(series[0], text="")],
        failures=failures,
    )
    rows = [
        [*([one.label] * several), f"{start:,.3f}", f"{value:,.2f}"]
        for one in series
        for start, value in zip(one.x, one.y, strict=False)
    ]
    text = "" if several else series[0].text
    return Plot(name, title, text, chart, [*(["run"] * several), "from (s)", unit], rows)


#: Label of a line, and its figures at loads or batch sizes in ascending order.
Line = tuple[str, Sequence[tuple[float, float]]]


def line_plot(name: str, title: str, lines: Sequence[Line], x: tuple[str, str], unit: str, digits: int = 2) -> Plot:
    """Plot figures against loads or batch sizes. `x` is the axis label, and a load in words with {} for its number."""
    label, at = x
    tables = [dict(points) for _, points in lines]
    loads = sorted({load for table in tables for load in table})
    series = [
        PlotSeries(
            line, index, [load for load, _ in points], [y for _, y in points], "dotted", _line_text(points, unit, at)
        )
        for index, (line, points) in enumerate(lines)
    ]
    reading, log_span = "{}" if len(lines) > 1 else f"{{}} {unit}", LOG_SPAN if unit == "milliseconds" else math.inf
    values = [value for _, points in lines for _, value in points]
    chart = Chart(Axis.fit(label, loads, at, LOAD_SPAN), Axis.fit(unit, values, reading, log_span), series)
    rows = [[f"{load:g}", *(f"{at[load]:,.{digits}f}" if load in at else "–" for at in tables)] for load in loads]
    return Plot(name, title, "", chart, [label, *(line for line, _ in lines)], rows)


def _line_text(points: Sequence[tuple[float, float]], unit: str, at: str) -> str:
    (low, first), (high, last) = points[0], points[-1]
    most = max(points, key=lambda point: point[1])
    peak = "" if most[0] in (low, high) else f", at most {short(most[1])} at {most[0]:g}"
    return f"{short(first)} {unit} {at.format(f'{low:g}')}, {short(last)} at {high:g}{peak}."
