"""A sweep as one HTML page: quality against speed and memory, and all figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.bench.report import page
from antiphon.bench.report.chart import BOTTOM, LEFT, RIGHT, TOP, Chart, Reading
from antiphon.bench.report.plots import Entry, Plot
from antiphon.bench.report.scales import Scale, linear_scale, short
from antiphon.evaluation.settings import EngineSetting
from antiphon.evaluation.sweep.table import Quality, cells, notes, qualities, shown_columns

Row = dict[str, Any]


#: Tokens of the cache that the memory of a setting is drawn with.
CACHE_TOKENS = 4096


@dataclass(frozen=True)
class Axis:
    """A figure of settings. The label is the unit of its values or, without `is_unit`, their name."""

    label: str
    value: Callable[[Row], float | None]
    is_unit: bool = True

    def words(self, value: float) -> str:
        return f"{short(value)} {self.label}" if self.is_unit else f"{self.label} {value:.4g}"


def _of(label: str, name: str, is_unit: bool = True) -> Axis:
    return Axis(label, lambda row: row.get(name), is_unit)


def _megabytes(row: Row) -> float | None:
    if row["weights_bytes"] is None:
        return None
    return float(row["weights_bytes"] + CACHE_TOKENS * (row["kv_bytes_per_token"] or 0.0)) / 1e6


SPEED = _of("tokens per second", "tokens_per_second")
PER_TOKEN = _of("milliseconds per token", "time_per_token_ms")
FIRST_TOKEN = _of("milliseconds to first token", "time_to_first_token_ms")
DIVERGENCE = _of("KL divergence in nats", "kl_divergence", is_unit=False)
MEMORY = Axis(f"megabytes of weights and {CACHE_TOKENS:,} tokens of cache", _megabytes)
WEIGHTS = Axis("megabytes of weights", _megabytes)
SECONDS = _of("seconds for the task", "seconds")


def _axes(metric: Quality, rows: Sequence[Row]) -> list[tuple[str, str, Axis, Axis]]:
    """Name, title and axes of each plot. The first metric of the task stands for quality."""
    label = f"{metric.name} in %" if metric.unit == "%" else metric.name
    quality, title = Axis(label, metric.value, is_unit=False), metric.name[0].upper() + metric.name[1:]
    if not any(SPEED.value(row) for row in rows):
        return [
            ("quality-time", f"{title} against the time of the task", SECONDS, quality),
            ("quality-memory", f"{title} against memory", WEIGHTS, quality),
        ]
    return [
        ("quality-speed", f"{title} against speed", SPEED, quality),
        ("quality-memory", f"{title} against memory", MEMORY, quality),
        ("divergence-speed", "Divergence against time per token", PER_TOKEN, DIVERGENCE),
        ("latency", "Time to first token against time per token", PER_TOKEN, FIRST_TOKEN),
    ]


def sweep_report(result: dict[str, Any]) -> str:
    """A result as `sweep_result` makes it."""
    columns = shown_columns(result)
    rows = [[_label(row), *cells(row, columns)] for row in result["settings"]]
    failed = [f"{_label(row)}: {row['error']}" for row in result["settings"] if row["error"] is not None]
    measured = [(place, row) for place, row in enumerate(result["settings"]) if row["error"] is None]
    plots = [
        _plot(name, title, x, y, measured) for name, title, x, y in _axes(qualities(result)[0], result["settings"])
    ]
    return page.page(
        f"Settings of {result['model']}",
        f"{len(rows)} settings on {result['data']} · {page.date_of(result['date'])}",
        [
            page.section("Plots", page.plots([plot for plot in plots if plot is not None])),
            page.section(
                "Figures",
                page.box(page.table(["setting", *(column.heading for column in columns)], rows)),
                page.sentences([*notes(result), *failed]),
            ),
            page.section("Settings and environment", page.box(_settings(result))),
        ],
    )


def _label(row: Row) -> str:
    return str(EngineSetting(row["setting"]))


def _plot(name: str, title: str, x: Axis, y: Axis, rows: Sequence[tuple[int, Row]]) -> Plot | None:
    """A dot for each setting that has both figures; None if none has."""
    points = [
        (place, row, across, up)
        for place, row in rows
        if (across := x.value(row)) is not None and (up := y.value(row)) is not None
    ]
    if not points:
        return None
    points.sort(key=lambda point: point[2])
    x_scale = _scale([across for _, _, across, _ in points], LEFT, RIGHT)
    y_scale = _scale([up for *_, up in points], BOTTOM, TOP)
    chart = Chart(x_scale, y_scale, x.label, y.label, _tick)
    readings: dict[float, list[str]] = {}
    for place, row, across, up in points:
        chart.dots([(across, up)], place)
        readings.setdefault(across, []).append(f"{_label(row)}: {y.words(up)}")
    chart.readings([Reading(across, x.words(across), lines) for across, lines in readings.items()])
    ordered = sorted(points, key=lambda point: point[0])
    return Plot(
        name,
        title,
        "A dot is a setting.",
        chart.svg(name),
        ["setting", x.label, y.label],
        [[_label(row), f"{across:,.4g}", f"{up:,.4g}"] for _, row, across, up in ordered],
        [Entry(_label(row), place, f"{y.words(up)}, {x.words(across)}.") for place, row, across, up in ordered],
    )


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    """Around the values, which are what matters here; from 0 where they spread."""
    low, high = min(values), max(values)
    if low < high / 2 or high <= 0:
        return linear_scale(values, start, end)
    room = (high - low) * 0.1 or high * 0.05
    return Scale(low - room, high + room, start, end)


def _tick(value: float) -> str:
    return f"{value:,.4g}"


def _settings(result: dict[str, Any]) -> str:
    rows = [[name, str(result[name])] for name in ("model", "task", "data", "date", "tool", "machine")]
    for part in (result["options"], result["environment"]):
        rows += [[name.replace("_", " "), str(value)] for name, value in part.items()]
    return page.settings(rows)
