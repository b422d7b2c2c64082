"""The plots of runs: distributions of latencies, and throughput over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.bench.report.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Reading
from antiphon.bench.report.scales import Scale, latency_scale, linear_scale, short, tick_text
from antiphon.bench.series import Curve, Timeline
from antiphon.counted import counted

MARKED = ((50, 0.42), (95, 0.27), (99, 0.12))  # percentiles, and the heights of their labels
ROWS = (0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100)
NUM_READINGS = 40


@dataclass(frozen=True)
class Entry:
    """A curve in the legend: its label, its colour, and what it shows in words."""

    label: str
    index: int
    text: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot with its text: a heading, what it shows in words, and its numbers as a table.

    A plot of several curves has a legend, and each entry its own words.
    """

    name: str
    title: str
    text: str
    svg: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    legend: Sequence[Entry] = ()


@dataclass(frozen=True)
class NamedCurve:
    label: str
    index: int
    curve: Curve


@dataclass(frozen=True)
class NamedTimeline:
    label: str
    index: int
    timeline: Timeline


def curve_plot(name: str, title: str, things: str, curves: Sequence[NamedCurve], limit: float | None = None) -> Plot:
    """Cumulative distributions, with p50, p95 and p99 marked. `things` is what is counted; `limit` an objective."""
    values = [value for one in curves for value in (one.curve.ms[0], one.curve.ms[-1])]
    chart = Chart(
        latency_scale(values, LEFT, RIGHT), Scale(0.0, 1.0, BOTTOM, TOP), "milliseconds",
        f"share of {things}", lambda share: f"{share:.0%}",
    )  # fmt: skip
    if limit is not None:
        chart.limit(limit, f"objective {tick_text(limit)} ms")
    for one in curves:
        curve = one.curve
        points = [(curve.ms[0], 0.0), *zip(curve.ms, curve.shares, strict=True), (curve.ms[-1], 1.0)]
        chart.line(points, one.index)
        if len(curves) > 1:
            chart.dots([(curve.at(percent / 100), percent / 100) for percent, _ in MARKED], one.index)
    if len(curves) == 1:
        for percent, level in MARKED:
            ms = curves[0].curve.at(percent / 100)
            chart.percentile_mark(percent, ms, f"p{percent} {short(ms)} ms", level, curves[0].index)
    chart.readings(_curve_readings(chart, curves))
    several = len(curves) > 1
    return Plot(
        name,
        title,
        "Dots mark p50, p95 and p99." if several else f"{_marks(curves[0].curve)}; {_range(curves[0].curve, things)}.",
        chart.svg(name),
        ["share", *(f"{one.label} (ms)" if several else "milliseconds" for one in curves)],
        _curve_rows(curves),
        [Entry(one.label, one.index, f"{_marks(one.curve)} ({_count(one.curve, things)}).") for one in curves]
        if several
        else (),
    )


def _marks(curve: Curve) -> str:
    return ", ".join(f"p{percent} {short(curve.at(percent / 100))} ms" for percent, _ in MARKED)


def _count(curve: Curve, things: str) -> str:
    return counted(curve.count, things.removesuffix("s"))


def _range(curve: Curve, things: str) -> str:
    if curve.count == 1:
        return _count(curve, things)
    return f"{_count(curve, things)} from {short(curve.ms[0])} to {short(curve.ms[-1])} ms"


def _curve_readings(chart: Chart, curves: Sequence[NamedCurve]) -> list[Reading]:
    readings = []
    for number in range(NUM_READINGS):
        ms = chart.x.value(LEFT + (RIGHT - LEFT) * (number + 0.5) / NUM_READINGS)
        lines = [f"{_prefix(one.label, len(curves))}{one.curve.share_within(ms):.1%}" for one in curves]
        readings.append(Reading(ms, f"within {short(ms)} ms", lines))
    return readings


def _prefix(label: str, count: int) -> str:
    """Long labels are cut; the legend has them whole."""
    return "" if count == 1 else f"{label if len(label) <= 24 else label[:23] + '…'}: "


def _curve_rows(curves: Sequence[NamedCurve]) -> list[list[str]]:
    most = max(one.curve.count for one in curves)
    shares = [
        percent for percent in ROWS if percent in (0, 50, 95, 99, 100) or most >= 100 / min(percent, 100 - percent)
    ]
    names: dict[float, str] = {0: "least", 100: "most"}
    return [
        [names.get(percent, f"p{percent:g}"), *(f"{one.curve.at(percent / 100):,.2f}" for one in curves)]
        for percent in shares
    ]  # fmt: skip


def histogram_plot(name: str, title: str, things: str, figures: dict[str, Any]) -> Plot:
    """Of the counts in equal bins that results of every version have."""
    counts, low, high = figures["histogram"], figures["min"], figures["max"]
    width = (high - low) / len(counts) or max(high, 1.0) / len(counts)
    edges = [low + width * place for place in range(len(counts) + 1)]
    chart = Chart(
        latency_scale(edges, LEFT, RIGHT) if low > 0 and high / low < 25 else linear_scale(edges, LEFT, RIGHT),
        linear_scale(counts, BOTTOM, TOP), "milliseconds", f"number of {things}",
    )  # fmt: skip
    chart.bars(edges, counts, 0)
    marks = [(mark, figures[mark]) for mark in ("p50", "p90", "p95", "p99") if mark in figures]
    for (mark, ms), is_left in zip((marks[:1] + marks[-1:]), (True, False), strict=False):
        has_room = not is_left or chart.x(ms) > 2 * LEFT  # the text above has it in any case
        chart.limit(ms, f"{mark} {short(ms)} ms" if has_room else "", is_left)
    chart.readings(
        [
            Reading((edges[place] + edges[place + 1]) / 2, f"{short(edges[place])} to {short(edges[place + 1])} ms",
                    [f"{counts[place]:,} {things}"])
            for place in range(len(counts))
        ]
    )  # fmt: skip
    words = ", ".join(f"{mark} {short(ms)} ms" for mark, ms in marks)
    return Plot(
        name, title, f"{words}; {figures['count']:,} {things} from {short(low)} to {short(high)} ms.", chart.svg(name),
        ["from (ms)", "to (ms)", things],
        [[f"{edges[place]:,.2f}", f"{edges[place + 1]:,.2f}", f"{count:,}"] for place, count in enumerate(counts)],
    )  # fmt: skip


def rate_plot(name: str, title: str, unit: str, lines: Sequence[tuple[NamedTimeline, Sequence[float]]]) -> Plot:
    """Amounts of each interval as a rate over time."""
    rates = [(one, [amount / one.timeline.bin_seconds for amount in amounts]) for one, amounts in lines]
    chart = _time_chart(rates, unit)
    for one, values in rates:
        points = _steps(one.timeline, values)
        if len(rates) == 1:
            chart.area(points, one.index)
        chart.line(points, one.index)
        width = one.timeline.bin_seconds
        chart.failures([(place + 0.5) * width for place, count in enumerate(one.timeline.failed) if count])
    return _time_plot(
        name, title, unit, [_rate_text(one.timeline, amounts, unit) for one, amounts in lines], chart, rates
    )


def _rate_text(timeline: Timeline, amounts: Sequence[float], unit: str) -> str:
    seconds, failed = timeline.bin_seconds * len(amounts), sum(timeline.failed)
    text = (
        f"{short(sum(amounts) / seconds)} {unit} on average over {short(seconds)} s, at most "
        f"{short(max(amounts) / timeline.bin_seconds)} in an interval of {short(timeline.bin_seconds)} s."
    )
    return text + (f" Crosses mark the times at which {counted(failed, 'request')} failed." if failed else "")


def in_flight_plot(name: str, title: str, unit: str, lines: Sequence[NamedTimeline]) -> Plot:
    """The mean of each interval, and of a single run the least and the most."""
    means = [(one, one.timeline.in_flight) for one in lines]
    most = [float(max(one.timeline.in_flight_max)) for one in lines]
    chart = _time_chart(means, unit, most)
    for one, values in means:
        if len(lines) == 1:
            timeline = one.timeline
            chart.band(_steps(timeline, timeline.in_flight_min), _steps(timeline, timeline.in_flight_max), one.index)
        chart.line(_steps(one.timeline, values), one.index)
    texts = [
        f"{short(sum(values) / len(values))} {unit} on average, at most {max(one.timeline.in_flight_max):,}."
        for one, values in means
    ]
    if len(lines) == 1:
        texts[0] += " The line is the mean of an interval, the band reaches from its least to its most."
    return _time_plot(name, title, unit, texts, chart, means)


Lines = Sequence[tuple[NamedTimeline, Sequence[float]]]


def _time_chart(lines: Lines, unit: str, more: Sequence[float] = ()) -> Chart:
    seconds = max(one.timeline.bin_seconds * len(values) for one, values in lines)
    highest = [max(values) for _, values in lines] + list(more)
    x = Scale(0.0, seconds, LEFT, RIGHT)
    return Chart(x, linear_scale(highest, BOTTOM, TOP), "seconds since the first request", unit)


def _steps(timeline: Timeline, values: Sequence[float]) -> list[tuple[float, float]]:
    """Level over each interval."""
    width = timeline.bin_seconds
    return [(width * edge, value) for place, value in enumerate(values) for edge in (place, place + 1)]


def _time_plot(name: str, title: str, unit: str, texts: Sequence[str], chart: Chart, lines: Lines) -> Plot:
    longest = max((one.timeline for one, _ in lines), key=lambda timeline: timeline.bin_seconds * len(timeline.tokens))
    count = len(longest.tokens)
    stride = max(1, -(-count * len(lines) // (3 * NUM_READINGS)))
    readings = []
    for place in range(0, count, stride):
        x = (place + 0.5) * longest.bin_seconds
        shown = [f"{_prefix(one.label, len(lines))}{_value_at(one.timeline, values, x)}" for one, values in lines]
        readings.append(
            Reading(x, f"at {short(x)} s", [f"{line} {unit}" if len(lines) == 1 else line for line in shown])
        )
    chart.readings(readings)
    several = len(lines) > 1
    rows = [
        [*([one.label] * several), f"{place * one.timeline.bin_seconds:,.3f}", f"{value:,.2f}"]
        for one, values in lines
        for place, value in enumerate(values)
    ]
    return Plot(
        name, title, "" if several else texts[0], chart.svg(name), [*(["run"] * several), "from (s)", unit], rows,
        [Entry(one.label, one.index, text) for (one, _), text in zip(lines, texts, strict=True)] if several else (),
    )  # fmt: skip


def _value_at(timeline: Timeline, values: Sequence[float], x: float) -> str:
    place = int(x / timeline.bin_seconds)
    return short(values[place]) if place < len(values) else "ended"
