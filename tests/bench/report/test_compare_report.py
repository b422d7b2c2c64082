"""Reports of comparisons: curves over each other, and the ratios that the text comparison has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.compare import DEFAULT_METRICS, compare
from antiphon.bench.load.arrivals import Arrivals
from antiphon.bench.report.compare_report import RunComparison, compare_report
from antiphon.bench.report.runs import file_labels
from support.pages.bench_results import as_of_an_earlier_version, records, result
from support.pages.report_page import ReportPage

BEFORE = result(records(100))
AFTER = result(records(100, seed=1, slow=1.5))
#: Faster by so much that it is no chance.
FASTER = result(records(100, seed=2, slow=0.5))


def report(*files: tuple[str, list[dict[str, Any]]]) -> ReportPage:
    first = files[0][1]
    comparisons = [
        RunComparison(label, compare(one, other, 0.05, DEFAULT_METRICS))
        for label, runs in files[1:]
        for one, other in zip(first, runs, strict=True)
    ]
    return ReportPage(compare_report(files, comparisons, "5%"))


def test_two_runs_and_their_ratios() -> None:
    page = report(("before", [BEFORE]), ("after", [AFTER]))
    assert page.plots == ["ttft", "tpot", "itl", "e2e", "tokens", "in-flight"]
    assert "after compared with before" in page.text and "worse by more than 5%: " in page.text
    for row in compare(BEFORE, AFTER, 0.05):
        assert f"{row.ratio:.3f}" in page.text
        if row.interval is not None:
            assert f"{row.interval[0]:.3f}–{row.interval[1]:.3f}" in page.text
    assert 'class="bad"' in page.html and 'class="better"' not in page.html
    for name in ("ttft", "e2e"):
        dots = page.plot(name).marks()
        wanted = [
            (run["figures"]["latency_ms"][name][f"p{percent}"], percent / 100)
            for run in (BEFORE, AFTER)
            for percent in (50, 95, 99)
        ]
        for dot, (ms, share) in zip(dots, wanted, strict=True):
            assert dot == pytest.approx((ms, share), rel=0.01)


def test_three_runs_one_of_them_faster() -> None:
    page = report(("one", [BEFORE]), ("two", [AFTER]), ("three", [FASTER]))
    assert all(len(page.plot(name).lines()) == 3 for name in page.plots)
    assert "two, three compared with one" in page.text
    assert "three: no judged figure is worse" in page.text and 'class="better"' in page.html


def test_files_of_several_loads_have_a_line_each() -> None:
    files = [
        [result(records(20, seed=seed, slow=slow), Arrivals(request_rate=rate)) for seed, rate in enumerate((1.0, 2.0))]
        for slow in (1.0, 2.0)
    ]
    page = report(("before", files[0]), ("after", files[1]))
    assert [len(page.plot(name).lines()) for name in ("load-goodput", "load-tokens", "load-ttft")] == [2, 2, 4]
    assert "before, goodput" in page.text and "after, p99" in page.text and "before, 2 a second" in page.text


def test_single_runs_at_different_loads_are_one_line() -> None:
    runs = [result(records(20), Arrivals(concurrency=count)) for count in (1, 2, 4)]
    page = report(*[(f"run{index}", [run]) for index, run in enumerate(runs)])
    assert [round(x, 1) for x, _ in page.plot("load-tokens").lines()[0]] == [1, 2, 4]


def test_a_file_of_an_earlier_version_is_left_out_of_plots_with_a_sentence() -> None:
    old = as_of_an_earlier_version(BEFORE)
    page = report(("before", [old]), ("after", [AFTER]))
    assert len(page.plot("ttft").lines()) == 1
    assert "written without distributions: before." in page.text and "no data over time: before." in page.text
    page = report(("before", [old]), ("after", [as_of_an_earlier_version(AFTER)]))
    assert page.plots == []
    assert "before, after" in page.text and "ttft.p50" in page.text


def test_runs_without_an_answer() -> None:
    nothing = result(records(3))
    nothing["figures"]["latency_ms"] = dict.fromkeys(nothing["figures"]["latency_ms"])
    nothing["series"], nothing["figures"]["completed"] = {"latency_ms": {}, "timeline": None}, 0
    page = report(("before", [nothing]), ("after", [nothing]))
    assert page.plots == [] and "No request completed" in page.text


def test_hostile_names_of_files() -> None:
    name = '"><script>alert(1)</script>'
    page = report((name, [BEFORE]), ("x" * 300, [AFTER]))
    assert page.html.count("<script") == 1 + len(page.plots) and name in page.text


def test_labels_of_files_differ() -> None:
    def labels(*paths: str) -> list[str]:
        return file_labels([Path(path) for path in paths])

    assert labels("a/before.json", "b/after.json") == ["before", "after"]
    assert labels("run.json", "run.txt") == ["run.json", "run.txt"]
    assert labels("a/run.json", "b/run.json") == ["a/run.json", "b/run.json"]
    assert labels("run.json", "run.json") == ["run.json (1)", "run.json (2)"]
