"""Two results: the table, what counts as worse, and what is not comparable."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.bench.compare import METRICS, compare, parse_tolerance
from antiphon.bench.load.generator import LoadResult
from antiphon.bench.load.objectives import Objectives
from antiphon.bench.load.records import MeasuredRequest
from antiphon.bench.summary import summarize
from antiphon.cli.app import app
from antiphon.errors import AntiphonError, InvalidRequestError


def result() -> dict[str, Any]:
    records = []
    for number in range(10):
        record = MeasuredRequest(0.0, 0.0, 1.0 + number / 10, completion_tokens=3)
        record.arrival_times = [0.1 + number / 100, 0.5, 0.9]
        record.arrival_chunks, record.arrival_characters = [1, 1, 1], [4, 4, 4]
        records.append(record)
    figures = summarize(LoadResult(records, 2.0, 0.1), Objectives.parse("ttft:150"))
    return {"format": 1, "workload": {"seed": 0, "requests": 10}, "figures": figures}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    before.write_text(json.dumps(result()))
    after.write_text(json.dumps(result()))
    return before, after


def change(path: Path, **figures: Any) -> None:
    content = json.loads(path.read_text())
    for name, value in figures.items():
        content["figures"][name] = value
    path.write_text(json.dumps(content))


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["bench", "compare", *map(str, arguments)])


def test_equal_runs_pass(files: tuple[Path, Path]) -> None:
    got = run(*files, "--tolerance", "0%")
    assert got.exit_code == 0
    assert {line.split()[0] for line in got.stdout.splitlines()[1:]} == set(METRICS)
    assert all(" 1.000" in line for line in got.stdout.splitlines()[1:])


@pytest.mark.parametrize(
    ("share", "tolerance", "passes"), [(0.96, "5%", True), (0.94, "5%", False), (0.94, "0.1", True)]
)
def test_throughput(files: tuple[Path, Path], share: float, tolerance: str, passes: bool) -> None:
    change(files[1], output_tokens_per_second=result()["figures"]["output_tokens_per_second"] * share)
    got = run(*files, "--tolerance", tolerance)
    assert (got.exit_code == 0) is passes
    assert f"{share:.3f}" in got.stdout
    if not passes:
        assert isinstance(got.exception, AntiphonError)
        assert "output_tokens_per_second" in str(got.exception)
    assert run(*files, "--metric", "ttft.p50").exit_code == 0
    assert run(*reversed(files), "--tolerance", "0").exit_code == 0


def test_every_latency_can_be_judged() -> None:
    before = result()
    for metric in METRICS:
        after = copy.deepcopy(before)
        name, dot, part = metric.partition(".")
        if dot:
            after["figures"]["latency_ms"][name][part] *= 1.2
        elif metric == "goodput":
            after["figures"]["goodput"]["requests_per_second"] *= 0.8
        else:
            after["figures"][metric] = 1 if metric == "failed" else before["figures"][metric] * 0.8
        assert [row.metric for row in compare(before, after, 0.1, METRICS) if row.is_worse] == [metric]
        assert not any(row.is_worse for row in compare(after, before, 0.1, METRICS))


def test_a_figure_that_one_run_lacks_is_left_out() -> None:
    before, after = result(), result()
    after["figures"]["goodput"] = after["figures"]["latency_ms"]["itl"] = None
    assert {row.metric for row in compare(before, after, 0.1)} == {
        name for name in METRICS if name != "goodput" and not name.startswith("itl.")
    }


def test_different_work_is_rejected_unless_requested(files: tuple[Path, Path]) -> None:
    content = json.loads(files[1].read_text())
    content["workload"]["seed"] = 7
    files[1].write_text(json.dumps(content))
    got = run(*files)
    assert got.exit_code == 1
    assert "seed 0 and 7" in str(got.exception)
    assert run(*files, "--any-workload").exit_code == 0


def test_files_that_are_no_results(files: tuple[Path, Path], tmp_path: Path) -> None:
    for content, message in (("{", "not JSON"), ("{}", "was not written"), ("[]", "was not written")):
        files[0].write_text(content)
        got = run(*files)
        assert got.exit_code == 1 and message in str(got.exception)
    assert "cannot read" in str(run(tmp_path / "absent", files[1]).exception)


def test_tolerances_and_metrics() -> None:
    assert (parse_tolerance("5%"), parse_tolerance("0.2"), parse_tolerance("0")) == (0.05, 0.2, 0.0)
    for wrong in ("", "x", "-1%", "%", "inf"):
        with pytest.raises(InvalidRequestError, match="tolerance"):
            parse_tolerance(wrong)
    with pytest.raises(InvalidRequestError, match=r"no figure 'speed'; there are: .*ttft\.p50"):
        compare(result(), result(), 0.1, ["speed"])
