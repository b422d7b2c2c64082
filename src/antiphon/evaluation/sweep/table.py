"""Table of a sweep, with a line for each setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from antiphon.counted import counted
from antiphon.evaluation.settings import EngineSetting


@dataclass(frozen=True)
class SweepColumn:
    heading: str
    value: Callable[[dict[str, Any]], float | None]
    form: str


def _of(name: str, factor: float = 1.0) -> Callable[[dict[str, Any]], float | None]:
    def value(row: dict[str, Any]) -> float | None:
        return _times(row.get(name), factor)

    return value


COLUMNS = (
    SweepColumn("KL nats", _of("kl_divergence"), "{:.2g}"),
    SweepColumn("same top", _of("same_top_token", 100), "{:.1f} %"),
    SweepColumn("TTFT ms", _of("time_to_first_token_ms"), "{:,.1f}"),
    SweepColumn("ms/token", _of("time_per_token_ms"), "{:,.2f}"),
    SweepColumn("tokens/s", _of("tokens_per_second"), "{:,.1f}"),
    SweepColumn("goodput/s", _of("goodput"), "{:,.2f}"),
    SweepColumn("task s", _of("seconds"), "{:,.1f}"),
    SweepColumn("weights MB", _of("weights_bytes", 1e-6), "{:,.1f}"),
    SweepColumn("KV B/token", _of("kv_bytes_per_token"), "{:,.0f}"),
)


@dataclass(frozen=True)
class Quality:
    """Metric of the task, with the factor and the unit for display."""

    name: str
    factor: float
    unit: str

    def value(self, row: dict[str, Any]) -> float | None:
        return _times((row["quality"].get(self.name) or {}).get("value"), self.factor)


def qualities(result: dict[str, Any]) -> list[Quality]:
    """Return the task's metrics, without sizes of the data, which have no better or worse."""
    first: dict[str, Any] = next((row["quality"] for row in result["settings"] if row["quality"]), {})
    return [
        Quality(name, 100.0 if figure["unit"] == "%" else 1.0, figure["unit"])
        for name, figure in first.items()
        if not figure["is_count"]
    ]


def shown_columns(result: dict[str, Any]) -> list[SweepColumn]:
    """Return the columns of the task's metrics, and other columns for which some setting has a figure."""
    quality = [
        SweepColumn(one.name, one.value, "{:.2f} %" if one.unit == "%" else "{:.4g}") for one in qualities(result)
    ]
    return quality + [column for column in COLUMNS if any(column.value(row) is not None for row in result["settings"])]


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def cells(row: dict[str, Any], columns: list[SweepColumn]) -> list[str]:
    values = [(column, column.value(row)) for column in columns]
    return ["–" if value is None else column.form.format(value) for column, value in values]


def sweep_table(result: dict[str, Any]) -> str:
    columns, rows = shown_columns(result), result["settings"]
    labels = [str(EngineSetting(row["setting"])) for row in rows]
    width = max([len("setting"), *map(len, labels)])
    lines = [f"{result['model']}, {result['task']}: {counted(len(rows), 'setting')} on {result['data']}", ""]
    lines.append(f"{'setting':{width}}" + "".join(f"{column.heading:>{_width(column)}}" for column in columns))
    for label, row in zip(labels, rows, strict=True):
        if row["error"] is not None:
            lines.append(f"{label:{width}}  {row['error']}")
        else:
            shown = zip(cells(row, columns), columns, strict=True)
            lines.append(f"{label:{width}}" + "".join(f"{cell:>{_width(column)}}" for cell, column in shown))
    return "\n".join([*lines, "", *notes(result)])


def _width(column: SweepColumn) -> int:
    return max(11, len(column.heading) + 2)


def notes(result: dict[str, Any]) -> list[str]:
    found = []
    if result["divergence_positions"]:
        first = str(EngineSetting(result["settings"][0]["setting"]))
        found.append(
            f"KL: divergence of the next-token distribution from that of {first}, the mean over "
            f"{counted(result['divergence_positions'], 'position')}, exact over the vocabulary"
        )
    if result["objectives"]:
        found.append(f"goodput: requests per second with {result['objectives']}")
    if not result["is_complete"]:
        found.append(f"interrupted: {len(result['settings'])} of {counted(result['total_settings'], 'setting')}")
    return found
