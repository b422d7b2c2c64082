"""Comparison of two runs: metrics that got better or worse, and whether by more than the tolerance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.bench.confidence import INDEPENDENT, ratio_interval
from antiphon.bench.results import series_of
from antiphon.bench.series import Series
from antiphon.errors import InvalidRequestError

MORE_IS_BETTER = ("requests_per_second", "output_tokens_per_second", "goodput")
LATENCIES = tuple(f"{name}.{part}" for name in ("ttft", "tpot", "itl", "e2e") for part in ("mean", "p50", "p90", "p99"))
METRICS = (*MORE_IS_BETTER, "failed", *LATENCIES)
DEFAULT_METRICS = (
    "output_tokens_per_second", "goodput", "failed",
    "ttft.p50", "ttft.p99", "tpot.p50", "tpot.p99", "e2e.p50", "e2e.p99",
)  # fmt: skip


@dataclass(frozen=True)
class FigureComparison:
    """Figure of both runs. `is_worse` is True only if the figure is chosen and worse by more than the tolerance.

    `interval` is the 95 % confidence interval of the ratio, or None if the runs lack the data for it.
    """

    metric: str
    before: float
    after: float
    is_chosen: bool
    is_worse: bool
    interval: tuple[float, float] | None = None

    @property
    def ratio(self) -> float:
        """Later figure divided by the earlier one; 1 if both are 0."""
        if self.before:
            return self.after / self.before
        return math.inf if self.after else 1.0


def parse_tolerance(text: str) -> float:
    """Parse a tolerance written as `5%` or `0.05` into a fraction."""
    number, is_percent = (text[:-1], True) if text.endswith("%") else (text, False)
    try:
        value = float(number) / (100 if is_percent else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InvalidRequestError(f"the tolerance is {text!r}; it is written as 5% or 0.05")
    return value


def check_workloads(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Raise InvalidRequestError with the differences if the runs did different work."""
    one, other = before["workload"], after["workload"]
    different = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    if different:
        parts = ", ".join(f"{name} {one.get(name)} and {other.get(name)}" for name in different)
        raise InvalidRequestError(f"the runs did different work: {parts}; --any-workload compares them anyway")


def compare(
    before: dict[str, Any], after: dict[str, Any], tolerance: float, chosen: Sequence[str] = DEFAULT_METRICS
) -> list[FigureComparison]:
    """Compare every figure that both runs have; `chosen` are judged by the tolerance."""
    unknown = [name for name in chosen if name not in METRICS]
    if unknown:
        raise InvalidRequestError(f"there is no figure {unknown[0]!r}; there are: {', '.join(METRICS)}")
    rows = []
    series = series_of(before), series_of(after)
    for metric in METRICS:
        one, other = _value(before["figures"], metric), _value(after["figures"], metric)
        if one is None or other is None:
            continue
        is_chosen = metric in chosen
        worse = other < one * (1 - tolerance) if metric in MORE_IS_BETTER else other > one * (1 + tolerance)
        rows.append(FigureComparison(metric, one, other, is_chosen, is_chosen and worse, _interval(*series, metric)))
    return rows


def _interval(before: Series, after: Series, metric: str) -> tuple[float, float] | None:
    name, _, part = metric.partition(".")
    if name not in INDEPENDENT or name not in before.latency_ms or name not in after.latency_ms:
        return None
    return ratio_interval(before.latency_ms[name], after.latency_ms[name], part)


def _value(figures: dict[str, Any], metric: str) -> float | None:
    name, dot, part = metric.partition(".")
    if dot:
        row = figures["latency_ms"].get(name)
        return None if row is None else _number(row.get(part))
    if metric == "goodput":
        goodput = figures.get("goodput")
        return None if goodput is None else _number(goodput.get("requests_per_second"))
    return _number(figures.get(metric))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def comparison_table(rows: Sequence[FigureComparison]) -> str:
    """Format all figures as a table, with unchosen ones marked as not judged."""
    has_intervals = any(row.interval for row in rows)
    lines = [f"{'figure':26}{'before':>12}{'after':>12}{'ratio':>8}" + (f"{'95 %':>15}" if has_intervals else "")]
    for row in rows:
        interval = f"{interval_text(row):>15}" if has_intervals else ""
        figures = f"{row.metric:26}{row.before:>12,.2f}{row.after:>12,.2f}{row.ratio:>8.3f}{interval}"
        lines.append(f"{figures}  {verdict(row)}".rstrip())
    return "\n".join(lines)


def interval_text(row: FigureComparison) -> str:
    return "" if row.interval is None else f"{row.interval[0]:.3f}–{row.interval[1]:.3f}"


def verdict(row: FigureComparison) -> str:
    return "worse" if row.is_worse else "" if row.is_chosen else "(not judged)"
