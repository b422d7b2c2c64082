"""Report of a sweep as an HTML page: quality against speed and memory, and all figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.bench.report import page
from antiphon.bench.report.chart import Axis, Chart, PlotSeries, short
from antiphon.bench.report.plots import Plot
from antiphon.evaluation.settings import EngineSetting
from antiphon.evaluation.sweep.table import Quality, cells, notes, qualities, shown_columns

Row = dict[str, Any]


#: Tokens of cache that are counted as a setting's memory.
CACHE_TOKENS = 4096


@dataclass(frozen=True)
class SettingFigure:
    """Figure of a setting. The label is the unit of its values or, without `is_unit`, their name."""

    label: str
    value: Callable[[Row], float | None]
    is_unit: bool = True

    @property
    def reading(self) -> str:
        """Format string of a value in words, with {} for its number."""
        return f"{{}} {self.label}" if self.is_unit else f"{self.label} {{}}"

    def words(self, value: float) -> str:
        return self.reading.format(short(value) if self.is_unit else f"{value:.4g}")


def _of(label: str, name: str, is_unit: bool = True) -> SettingFigure:
    return SettingFigure(label, lambda row: row.get(name), is_unit)


def _megabytes(row: Row) -> float | None:
    if row["weights_bytes"] is None:
        return None
    return float(row["weights_bytes"] + CACHE_TOKENS * (row["kv_bytes_per_token"] or 0.0)) / 1e6


SPEED = _of("tokens per second", "tokens_per_second")
PER_TOKEN = _of("milliseconds per token", "time_per_token_ms")
FIRST_TOKEN = _of("milliseconds to first token", "time_to_first_token_ms")
DIVERGENCE = _of("KL divergence in nats", "kl_divergence", is_unit=False)
MEMORY = SettingFigure(f"megabytes of weights and {CACHE_TOKENS:,} tokens of cache", _megabytes)
WEIGHTS = SettingFigure("megabytes of weights", _megabytes)
SECONDS = _of("seconds for the task", "seconds")


def _axes(metric: Quality, rows: Sequence[Row]) -> list[tuple[str, str, SettingFigure, SettingFigure]]:
    """Return the name, the title and the axes of each plot. The task's first metric represents quality."""
    label = f"{metric.name} in %" if metric.unit == "%" else metric.name
    quality, title = SettingFigure(label, metric.value, is_unit=False), metric.name[0].upper() + metric.name[1:]
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
    columns = shown_columns(result)
    rows = [[_label(row), *cells(row, columns)] for row in result["settings"]]
    failed = [f"{_label(row)}: {row['error']}" for row in result["settings"] if row["error"] is not None]
    measured = [(index, row) for index, row in enumerate(result["settings"]) if row["error"] is None]
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


def _plot(name: str, title: str, x: SettingFigure, y: SettingFigure, rows: Sequence[tuple[int, Row]]) -> Plot | None:
    points = [
        (index, _label(row), across, up)
        for index, row in rows
        if (across := x.value(row)) is not None and (up := y.value(row)) is not None
    ]
    if not points:
        return None
    chart = Chart(
        Axis.fit(x.label, [across for _, _, across, _ in points], x.reading, from_zero=False),
        Axis.fit(y.label, [up for *_, up in points], y.reading, from_zero=False),
        [
            PlotSeries(label, index, [across], [up], "dots", f"{y.words(up)}, {x.words(across)}.")
            for index, label, across, up in points
        ],
    )
    table = [[label, f"{across:,.4g}", f"{up:,.4g}"] for _, label, across, up in points]
    return Plot(name, title, "A dot is a setting.", chart, ["setting", x.label, y.label], table)


def _settings(result: dict[str, Any]) -> str:
    own = {name: result[name] for name in ("model", "task", "data", "date", "tool", "machine")}
    return page.settings(list(page.described([own, result["options"], result["environment"]]).items()))
