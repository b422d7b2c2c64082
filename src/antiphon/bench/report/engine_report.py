"""Reports of `antiphon bench latency` and `antiphon bench throughput`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.bench.engine.engine_series import StepSeries
from antiphon.bench.engine.engine_table import engine_columns, engine_heading
from antiphon.bench.report import page
from antiphon.bench.report.chart import short
from antiphon.bench.report.page import FigureCard
from antiphon.bench.report.plots import Named, Plot, curve_plot, in_flight_plot, line_plot, rate_plot
from antiphon.bench.report.runs import number

#: Plots against batch size: name, title, unit, and label and figure of each line.
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
    """Render a result of `bench_latency` or `bench_throughput` as an HTML report."""
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
        ordered = sorted(figures, key=lambda one: int(one["batch"]))
        for name, title, unit, keys in LINES:
            lines = [(label, [(float(one["batch"]), float(one[key])) for one in ordered]) for label, key in keys]
            plots.append(line_plot(name, title, lines, ("batch size", "at batch {}"), unit, digits=3))
    for name, (title, things) in CURVES.items():
        curves = [
            Named(f"batch {one['batch']}", index, plotted.curves_ms[name])
            for index, (one, plotted) in enumerate(zip(figures, series, strict=False))
            if name in plotted.curves_ms
        ]
        if curves:
            plots.append(curve_plot(name.replace("_", "-"), title, things, curves))
    return plots


def _throughput_plots(series: Sequence[StepSeries]) -> list[Plot]:
    plots = []
    for one in series:
        if one.timeline is not None:
            decoded, prompts = Named("answers", 0, one.timeline), Named("prompts", 1, one.timeline)
            plots += [
                rate_plot("tokens", "Tokens of answers", "tokens per second", [(decoded, one.timeline.tokens)]),
                rate_plot("prompts", "Tokens of prompts", "tokens per second", [(prompts, one.timeline.prompt_tokens)]),
                in_flight_plot("in-flight", "Requests computed together", "requests", [decoded]),
            ]
        names = {"decode": "decodes alone", "with_prompts": "with prompts"}
        curves = [
            Named(label, index, one.curves_ms[name])
            for index, (name, label) in enumerate(names.items())
            if name in one.curves_ms
        ]
        if curves:
            plots.append(curve_plot("steps", "Time of a step", "steps", curves))
    return plots


def _settings(result: dict[str, Any]) -> str:
    own = ("model", "backend", "weights", "max_running", "date", "tool", "machine")
    shown = {name: result[name] for name in own if name in result}
    return page.settings(list(page.described([shown, result["workload"], result.get("environment")]).items()))
