"""Reports of `antiphon bench compare`: runs in shared plots, and the ratios of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.bench.compare import MORE_IS_BETTER, FigureComparison, interval_text
from antiphon.bench.report import page
from antiphon.bench.report.page import Cell
from antiphon.bench.report.runs import groups_of
from antiphon.bench.report.serve_report import common_sections

SURE = (
    "The ratio is the later figure divided by the earlier one. Where runs have enough requests, the interval holds the "
    "ratio with 95 % confidence, as far as chance in the requests of each run goes; two runs of one server differ by "
    "more than that."
)


@dataclass(frozen=True)
class RunComparison:
    """Comparison of a later run with the first one, at a load."""

    label: str
    rows: Sequence[FigureComparison]


def compare_report(
    files: Sequence[tuple[str, Sequence[dict[str, Any]]]], comparisons: Sequence[RunComparison], tolerance: str
) -> str:
    """Render the report; `files` are labelled results, each compared with the first."""
    groups = groups_of(files)
    first, *others = (label for label, _ in files)
    tables = [page.box(_ratios(comparison)) for comparison in comparisons]
    judged = [f"{comparison.label}: {_judgement(comparison, tolerance)}" for comparison in comparisons]
    return page.page(
        f"{', '.join(others)} compared with {first}",
        _subtitle(files),
        [
            page.section("Comparison", page.sentences(judged), *tables, page.sentences([SURE])),
            *common_sections(groups),
        ],
    )


def _subtitle(files: Sequence[tuple[str, Sequence[dict[str, Any]]]]) -> str:
    models = dict.fromkeys(str(result.get("target", {}).get("model", "")) for _, results in files for result in results)
    dates = [page.date_of(results[0].get("date", "")) for _, results in files]
    return " · ".join(part for part in (*models, *dict.fromkeys(dates)) if part)


def _judgement(comparison: RunComparison, tolerance: str) -> str:
    worse = [row.metric for row in comparison.rows if row.is_worse]
    if worse:
        return f"worse by more than {tolerance}: {', '.join(worse)}."
    return f"no judged figure is worse by more than {tolerance}."


def _ratios(comparison: RunComparison) -> str:
    rows: list[list[str | Cell]] = []
    for row in comparison.rows:
        rows.append(
            [
                row.metric,
                f"{row.before:,.2f}",
                f"{row.after:,.2f}",
                Cell(f"{row.ratio:.3f}", "bad" if row.is_worse else "better" if _is_better(row) else ""),
                interval_text(row) or "–",
                "worse" if row.is_worse else "" if row.is_chosen else "not judged",
            ]
        )
    return page.table(["figure", "before", "after", "ratio", "95 % interval", ""], rows, comparison.label)


def _is_better(row: FigureComparison) -> bool:
    """Return whether a figure is better with confidence: its whole interval is on the better side of 1."""
    if row.interval is None:
        return False
    return row.interval[0] > 1 if row.metric in MORE_IS_BETTER else row.interval[1] < 1
