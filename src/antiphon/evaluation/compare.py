"""Comparison of two results of one task on the same items, with a test of significance per metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from antiphon.counted import counted
from antiphon.errors import InvalidRequestError
from antiphon.evaluation.metrics.statistics import PairedTest, paired_test
from antiphon.evaluation.results import items_of, value_text
from antiphon.evaluation.task import ItemResult, Metric

#: Largest p-value of a difference that is reported as better or worse.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class MetricComparison:
    """Metric of both results on the items that both have."""

    metric: Metric
    before: float
    after: float
    test: PairedTest

    @property
    def verdict(self) -> str:
        if self.test.p_value >= SIGNIFICANT or not self.test.difference:
            return "no difference shown"
        return "better" if (self.test.difference > 0) == self.metric.higher_is_better else "worse"


@dataclass(frozen=True)
class Comparison:
    labels: tuple[str, str]
    num_items: int
    num_left_out: int
    rows: list[MetricComparison]

    def as_json(self) -> dict[str, Any]:
        return {
            "before": self.labels[0],
            "after": self.labels[1],
            "items": self.num_items,
            "metrics": {
                row.metric.name: {
                    "before": row.before,
                    "after": row.after,
                    "difference": row.test.difference,
                    "interval_95": list(row.test.interval),
                    "p_value": row.test.p_value,
                }
                for row in self.rows
            },
        }


def compare(
    before: dict[str, Any], after: dict[str, Any], metrics: Sequence[Metric], labels: tuple[str, str]
) -> Comparison:
    """Compare two results on their shared items; reject results of different tasks or data."""
    for name in ("task", "data"):
        if before.get(name) != after.get(name):
            raise InvalidRequestError(
                f"the results cannot be compared: the {name} is {before.get(name)} in {labels[0]} and "
                f"{after.get(name)} in {labels[1]}"
            )
    ones, others = ({item.id: item for item in items_of(result)} for result in (before, after))
    shared = [item for item in ones if item in others]
    if not shared:
        raise InvalidRequestError(f"the results cannot be compared: {labels[0]} and {labels[1]} have no item in common")
    pairs = [ones[item] for item in shared], [others[item] for item in shared]
    rows = []
    for metric in metrics:
        first, second = (_rows(metric, items, label) for items, label in zip(pairs, labels, strict=True))
        if metric.is_count:
            if not np.array_equal(first, second):
                raise InvalidRequestError(
                    f"the results cannot be compared: their items differ in {metric.name}, so that they are not of the "
                    "same work (another tokenizer, context or stride)"
                )
            continue
        test = paired_test(first, second, metric.statistic)
        rows.append(MetricComparison(metric, metric.statistic(first), metric.statistic(second), test))
    return Comparison(labels, len(shared), len(ones) + len(others) - 2 * len(shared), rows)


def _rows(metric: Metric, items: Sequence[ItemResult], label: str) -> Any:
    try:
        return metric.rows(items)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"{label} lacks what {metric.name} is computed from: {error!r}") from error


def comparison_table(comparison: Comparison) -> str:
    one, other = comparison.labels
    left_out = f"; {counted(comparison.num_left_out, 'item')} that only one has left out" * bool(
        comparison.num_left_out
    )
    lines = [f"{other} against {one}, {counted(comparison.num_items, 'item')}{left_out}", ""]
    lines.append(f"{'metric':20}{'before':>10}{'after':>10}{'difference':>13}{'95 % interval':>24}{'p':>9}")
    for row in comparison.rows:
        interval = " to ".join(_signed(value, row.metric) for value in row.test.interval)
        lines.append(
            f"{row.metric.name:20}{value_text(row.before, row.metric):>10}{value_text(row.after, row.metric):>10}"
            f"{_signed(row.test.difference, row.metric):>13}{interval:>24}{row.test.p_value:>9.4f}  {row.verdict}"
        )
    return "\n".join(lines)


def _signed(value: float, metric: Metric) -> str:
    return f"{100 * value:+.2f}" if metric.unit == "%" else f"{value:+.3g}"
