"""Results of `antiphon eval`: metrics with confidence intervals, as a table and as JSON for later comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antiphon.bench.result_files import FORMAT, origin, read_json
from antiphon.counted import counted
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import bootstrap_interval, mean
from antiphon.evaluation.run import TaskRun
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric

KIND = "eval"
#: Minimum number of items for a confidence interval.
MIN_ITEMS = 5


@dataclass(frozen=True)
class Figure:
    """Value of a metric with its 95 % bootstrap interval, or None with fewer than MIN_ITEMS items."""

    metric: Metric
    value: float
    interval: tuple[float, float] | None = None


def figures(metrics: Sequence[Metric], items: Sequence[ItemResult]) -> list[Figure]:
    found = []
    for metric in metrics:
        rows = metric.rows(items)
        has_interval = len(items) >= MIN_ITEMS and not metric.is_count
        interval = bootstrap_interval(rows, metric.statistic) if has_interval else None
        found.append(Figure(metric, metric.statistic(rows), interval))
    return found


def result_of(
    task: EvaluationTask[Any], model: str, run: TaskRun, settings: dict[str, str], data: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the result as `--output` writes it, with the engine's `settings` and the task's `options`."""
    return {
        **origin(KIND),
        "model": model,
        "task": task.name,
        "data": data,
        "settings": settings,
        "options": options,
        "is_complete": run.is_complete,
        "total_items": run.total,
        "seconds": round(run.seconds, 3),
        "metrics": figures_json(figures(task.metrics, run.items)),
        "items": [_item(item) for item in run.items],
    }


def figures_json(found: Sequence[Figure]) -> dict[str, Any]:
    return {one.metric.name: _figure(one) for one in found}


def _figure(figure: Figure) -> dict[str, Any]:
    """Return the figure as JSON, in which numbers that are not finite are null."""
    interval = None if figure.interval is None else [_finite(value) for value in figure.interval]
    metric = figure.metric
    return {
        "value": _finite(figure.value),
        "interval_95": interval,
        "unit": metric.unit,
        "higher_is_better": metric.higher_is_better,
        "is_count": metric.is_count,
        "is_mean_of": metric.parts[0] if metric.statistic is mean and len(metric.parts) == 1 else None,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _item(item: ItemResult) -> dict[str, Any]:
    text = {} if item.output is None else {"output": item.output}
    return {"id": item.id, "values": item.values, **text}


def read_result(path: Path) -> dict[str, Any]:
    result = read_json(path)
    is_known = isinstance(result, dict) and result.get("kind") == KIND and result.get("format") == FORMAT
    parts = {"items": list, "metrics": dict, "settings": dict, "task": str}
    if not is_known or not all(isinstance(result.get(name), kind) for name, kind in parts.items()):
        raise InvalidRequestError(f"{path} was not written by `antiphon eval --output` of this version")
    return dict(result)


def metrics_of(result: dict[str, Any], known: Sequence[Metric]) -> list[Metric]:
    """Return a result's metrics: its task's known metrics, and others that are means of its items."""
    found = {metric.name: metric for metric in known if metric.name in result["metrics"]}
    for name, figure in result["metrics"].items():
        part = figure.get("is_mean_of")
        if name not in found and part is not None:
            found[name] = Metric(name, (part,), mean, bool(figure["higher_is_better"]), str(figure["unit"]))
    return list(found.values())


def items_of(result: dict[str, Any]) -> list[ItemResult]:
    try:
        return [ItemResult(str(item["id"]), dict(item["values"]), item.get("output")) for item in result["items"]]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"the items of a result cannot be read: {error!r}") from error


def result_table(result: dict[str, Any], metrics: Sequence[Metric]) -> str:
    done, total = len(result["items"]), result["total_items"]
    settings = ", ".join(f"{key}={value}" for key, value in result["settings"].items())
    lines = [
        f"{result['model']}, {result['task']}: {counted(done, 'item')} of {result['data']} in {result['seconds']:.1f} s"
        + (f" ({settings})" if settings else "")
    ]
    if done < total:
        lines.append(f"interrupted: {done:,} of {counted(total, 'item')} were scored; the figures are of those alone")
    lines += ["", f"{'metric':28}{'value':>12}{'95 % interval':>24}"]
    for metric in metrics:
        figure = result["metrics"].get(metric.name)
        if figure is not None:
            interval = figure["interval_95"]
            shown = "" if interval is None else " to ".join(value_text(value, metric) for value in interval)
            lines.append(f"{metric.name:28}{value_text(figure['value'], metric):>12}{shown:>24}".rstrip())
    return "\n".join(lines)


def value_text(value: float | None, metric: Metric) -> str:
    """Format a value with four significant digits, or as a percentage with two decimals."""
    if value is None or not math.isfinite(value):
        return "–"
    if metric.unit == "%":
        return f"{100 * value:.2f} %"
    return f"{value:,.0f}" if metric.is_count or abs(value) >= 1e4 else f"{value:.4g}"
