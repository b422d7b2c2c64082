"""`antiphon bench compare`: metrics that got better or worse between runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from antiphon.cli.arguments.command import usage_errors
from antiphon.cli.bench.outputs import Html, ResultFiles
from antiphon.errors import AntiphonError, InvalidRequestError


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="A file that bench serve --output wrote.")],
    after: Annotated[
        list[Path], typer.Argument(metavar="AFTER...", help="Others with the same workload, each compared with BEFORE.")
    ],
    tolerance: Annotated[str, typer.Option("--tolerance", help="How much worse a metric may get.")] = "5%",
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="Check this metric, such as ttft.p99; can be repeated. The main ones if omitted."
        ),
    ] = None,
    any_workload: Annotated[
        bool, typer.Option("--any-workload", help="Compare runs with different workloads.")
    ] = False,
    html: Html = None,
) -> None:
    """Compare runs. Exits with code 1 if a checked metric got worse by more than the tolerance."""
    from antiphon.bench.compare import DEFAULT_METRICS, check_workloads, comparison_table, parse_tolerance
    from antiphon.bench.compare import compare as compare_results
    from antiphon.bench.report.compare_report import RunComparison, compare_report
    from antiphon.bench.report.runs import file_labels
    from antiphon.bench.results import read_runs

    with usage_errors():
        allowed = parse_tolerance(tolerance)
    paths = [before, *after]
    files = ResultFiles(output=None, html=html)
    files.check(paths)
    labels, results = file_labels(paths), [read_runs(path) for path in paths]
    comparisons = []
    for path, label, runs in zip(after, labels[1:], results[1:], strict=True):
        for load, one, other in _pairs(before, path, results[0], runs):
            if not any_workload:
                check_workloads(one, other)
            name = f"{label}{load}"
            comparisons.append(RunComparison(name, compare_results(one, other, allowed, metric or DEFAULT_METRICS)))
    for index, comparison in enumerate(comparisons):
        if len(comparisons) > 1:
            print(f"{chr(10) * bool(index)}{comparison.label}")
        print(comparison_table(comparison.rows))
    files.write(comparisons, lambda made: compare_report(list(zip(labels, results, strict=True)), made, tolerance))
    worse = dict.fromkeys(row.metric for comparison in comparisons for row in comparison.rows if row.is_worse)
    if worse:
        raise AntiphonError(f"worse by more than {tolerance}: {', '.join(worse)}")


def _pairs(
    before: Path, after: Path, ones: list[dict[str, Any]], others: list[dict[str, Any]]
) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Pair the runs of both files; each pair has a label with its load if there are several."""
    if len(ones) != len(others):
        raise InvalidRequestError(f"{before} has runs at {len(ones)} loads, {after} at {len(others)}")
    is_sweep = len(ones) > 1
    return [
        (f", {other['workload'].get('arrivals')}" if is_sweep else "", one, other)
        for one, other in zip(ones, others, strict=True)
    ]
