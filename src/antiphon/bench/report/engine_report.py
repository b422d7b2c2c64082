"""Reports of `antiphon bench latency` and `antiphon bench throughput`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.bench.engine.engine_series import StepSeries
from antiphon.bench.engine.engine_table import engine_columns, engine_heading
from antiphon.bench.report import page
from antiphon.bench.report.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Reading
from antiphon.bench.report.page import FigureCard
from antiphon.bench.report.plots import Entry, NamedCurve, NamedTimeline, Plot, curve_plot, in_flight_plot, rate_plot
from antiphon.bench.report.runs import number
from antiphon.bench.report.scales import Scale, linear_scale, short

#: Name, title and unit of a plot, and the labels and figures of its lines.
LINES = (
    ("tokens", "Throughput against batch size", "tokens per second", (("tokens per second", "tokens_per_second"),)),
    (
        "steps",
        "Time of a step against batch size",
        "milliseconds",
        (("device", "device_ms"), ("step", "step_ms"), ("delivered", "delivered_ms")),
    ),
)
CURVES = {"first_token": ("Time to first token", "prompts"), "step": ("Time of a step", "steps")}


def engine_report(result: dict[str, Any]) -> str:
    """A result of `bench_latency` or `bench_throughput`."""
    series = msgspec.convert(result.get("series") or [], list[StepSeries])
    figures: list[dict[str, Any]] = result["figures"]
    is_latency = result["kind"] == "latency"
    plots = _latency_plots(figures, series) if is_latency else _throughput_plots(series)
    missing = [] if is_latency or any(one.timeline for one in series) else [
        "The run over time is left out: the engine keeps its latest steps only, and this run had more."
    ]  # fmt: skip
    columns = engine_columns(result)
    rows = [[form.format(one[key]) for _, key, form in columns] for one in figures]
    heading = [name.lower().replace("gb/s", "GB/s") for name, _, _ in columns]
    return page.page(
        f"{'Latency' if is_latency else 'Throughput'} of {result['model']}",
        f"{engine_heading(result)} · {page.date_of(result['date'])}",
        [
            page.cards(_cards(figures[0])) if not is_latency or len(figures) == 1 else "",
            page.section("Plots", page.plots(plots), page.sentences(missing)),
            page.section("Figures", page.box(page.table(heading, rows))),
            page.section("Settings and environment", page.box(_settings(result))),
        ],
    )


def _cards(figures: dict[str, Any]) -> list[FigureCard]:
    names = {
        "output_tokens_per_second": ("Output tokens per second", ""), "prefill_tokens_per_second": (
            "Prompt tokens per second", " in steps with prompts"), "tokens_per_second": ("Tokens per second", ""),
        "first_token_ms": ("Time to first token", " ms"), "delivered_ms": ("Delivered step", " ms"),
        "device_ms": ("Computing of a step", " ms"),
    }  # fmt: skip
    return [
        FigureCard(label, short(value) + (unit if unit == " ms" else ""), unit.strip() if unit != " ms" else "")
        for key, (label, unit) in names.items()
        if (value := number(figures.get(key))) is not None
    ]


def _latency_plots(figures: Sequence[dict[str, Any]], series: Sequence[StepSeries]) -> list[Plot]:
    plots = []
    if len(figures) > 1:
        plots += [_batch_plot(name, title, unit, lines, figures) for name, title, unit, lines in LINES]
    for name, (title, things) in CURVES.items():
        curves = [
            NamedCurve(f"batch {one['batch']}", place, plotted.curves_ms[name])
            for place, (one, plotted) in enumerate(zip(figures, series, strict=False))
            if name in plotted.curves_ms
        ]
        if curves:
            plots.append(curve_plot(name.replace("_", "-"), title, things, curves))
    return plots


def _batch_plot(
    name: str, title: str, unit: str, lines: Sequence[tuple[str, str]], figures: Sequence[dict[str, Any]]
) -> Plot:
    ordered = sorted(figures, key=lambda one: int(one["batch"]))
    sizes = [float(one["batch"]) for one in ordered]
    is_log = sizes[-1] / sizes[0] > 8
    x = Scale(sizes[0] * 0.9, sizes[-1] * 1.1, LEFT, RIGHT, True) if is_log else linear_scale(sizes, LEFT, RIGHT)
    chart = Chart(x, linear_scale([one[key] for one in ordered for _, key in lines], BOTTOM, TOP), "batch size", unit)
    for place, (_, key) in enumerate(lines):
        points = [(float(one["batch"]), float(one[key])) for one in ordered]
        chart.line(points, place)
        chart.dots(points, place)
    several = len(lines) > 1

    def value(label: str, key: str, one: dict[str, Any]) -> str:
        return f"{label}: {short(one[key])}" if several else f"{short(one[key])} {unit}"

    chart.readings(
        [
            Reading(float(one["batch"]), f"batch {one['batch']}", [value(label, key, one) for label, key in lines])
            for one in ordered
        ]
    )
    first, last = ordered[0], ordered[-1]
    texts = [
        f"{short(first[key])} {unit} at batch {first['batch']}, {short(last[key])} at {last['batch']}."
        for _, key in lines
    ]
    rows = [[f"{one['batch']}", *(f"{one[key]:,.3f}" for _, key in lines)] for one in ordered]
    legend = [Entry(label, place, texts[place]) for place, (label, _) in enumerate(lines)] if several else []
    text = "" if several else texts[0]
    return Plot(name, title, text, chart.svg(name), ["batch", *(label for label, _ in lines)], rows, legend)


def _throughput_plots(series: Sequence[StepSeries]) -> list[Plot]:
    plots = []
    for one in series:
        if one.timeline is not None:
            decoded = NamedTimeline("answers", 0, one.timeline)
            prompts = NamedTimeline("prompts", 1, one.timeline)
            plots += [
                rate_plot("tokens", "Tokens of answers", "tokens per second", [(decoded, one.timeline.tokens)]),
                rate_plot("prompts", "Tokens of prompts", "tokens per second", [(prompts, one.timeline.prompt_tokens)]),
                in_flight_plot("in-flight", "Requests computed together", "requests", [decoded]),
            ]
        names = {"decode": "decodes alone", "with_prompts": "with prompts"}
        curves = [
            NamedCurve(label, place, one.curves_ms[name])
            for place, (name, label) in enumerate(names.items())
            if name in one.curves_ms
        ]
        if curves:
            plots.append(curve_plot("steps", "Time of a step", "steps", curves))
    return plots


def _settings(result: dict[str, Any]) -> str:
    own = ("model", "backend", "weights", "max_running", "date", "tool", "machine")
    rows = [[name.replace("_", " "), str(result[name])] for name in own if name in result]
    for part in (result["workload"], result.get("environment") or {}):
        for name, value in part.items():
            if value is not None:
                text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
                rows.append([name.replace("_", " "), text])
    return page.settings(rows)
