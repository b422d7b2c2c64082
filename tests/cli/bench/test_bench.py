"""`antiphon bench serve` and `compare` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.cli.app import app
from support.pages.bench_results import as_of_an_earlier_version, records, result
from support.pages.report_page import ReportPage
from support.server.fake_openai import Behaviour, FakeServer, fake_server


def compare(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["bench", "compare", *map(str, arguments)])


def run(server: FakeServer, *arguments: Any) -> Any:
    given = ["--base-url", server.url, "--model", "fake", "--num-requests", "4", *map(str, arguments)]
    return CliRunner().invoke(app, ["bench", "serve", *given])


def test_a_table_and_a_file_that_compare_reads(tmp_path: Path) -> None:
    written = tmp_path / "run.json"
    with fake_server() as server:
        got = run(server, "--concurrency", 2, "--slo", "ttft:1000", "--output", written, "--output-len", 3)
    assert got.exit_code == 0, got.exception
    assert "4 done, 0 failed" in got.stdout and "time to first token" in got.stdout
    result = json.loads(written.read_text())
    assert result["figures"]["output_tokens"] == 12
    assert result["workload"]["arrivals"] == "2 at a time"
    assert compare(written, written).exit_code == 0


def test_a_key_is_sent_and_not_written(tmp_path: Path) -> None:
    key, written = tmp_path / "key", tmp_path / "run.json"
    key.write_text("very-secret\n")
    with fake_server() as server:
        assert run(server, "--api-key-file", key, "--output", written).exit_code == 0
    assert "very-secret" not in written.read_text()


def test_all_requests_failing_is_an_error() -> None:
    with fake_server(Behaviour(faults=dict.fromkeys(range(1, 20), "http_429"))) as server:
        got = run(server, "--warm-up", 0)
    assert got.exit_code == 1
    assert "none of 4 requests" in str(got.exception)
    assert "error http_429: 4 ×" in got.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input-len", "9:3"], "--input-len"),
        (["--output-len", "many"], "--output-len"),
        (["--request-rate", "0"], "request rate"),
        (["--request-rate", "3", "--concurrency", "3"], "not both"),
        (["--request-rate", "3,fast"], "--request-rate is '3,fast'"),
        (["--request-rate", "1,nan"], "request rate"),
        (["--concurrency", "4,4"], "several different ones"),
        (["--concurrency", "2.5"], "--concurrency is '2.5'"),
        (["--concurrency", "0"], "the concurrency is 0"),
        (["--concurrency", ""], "--concurrency is ''"),
        (["--concurrency", "3", "--burstiness", "2"], "burstiness"),
        (["--slo", "speed:1"], "--slo"),
        (["--dataset-file", "/absent.json"], "cannot read"),
        (["--dataset-file", "/absent.json", "--input-len", "3"], "not both"),
        (["--dataset-file", "/absent.json", "--shared-prefix", "3"], "shared prefix"),
        (["--api-key-file", "/absent"], "cannot read"),
        (["--base-url", "nonsense"], "base URL"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], message: str) -> None:
    with fake_server() as server:
        got = run(server, *arguments)
    assert got.exit_code == 1
    assert message in str(got.exception)
    assert "\n" not in str(got.exception)


def test_a_report_is_written_and_replaces_what_was_there(tmp_path: Path) -> None:
    html, written = tmp_path / "report.html", tmp_path / "run.json"
    html.write_text("old")
    with fake_server() as server:
        assert run(server, "--html", html, "--output", written, "--output-len", 3).exit_code == 0
    page = ReportPage(html.read_text(encoding="utf-8"))
    assert {"ttft", "e2e", "tokens", "in-flight"} <= set(page.plots)
    figures = json.loads(written.read_text())["figures"]["latency_ms"]
    assert page.plot("ttft").marks()[0][0] == pytest.approx(figures["ttft"]["p50"], rel=0.02)
    assert server.url in page.text


def test_several_loads_have_prompts_of_their_own(tmp_path: Path) -> None:
    html, written = tmp_path / "report.html", tmp_path / "sweep.json"
    with fake_server() as server:
        got = run(
            server, "--concurrency", "1,3", "--slo", "ttft:9000", "--html", html, "--output", written, "--warm-up", 0
        )
    assert got.exit_code == 0, got.exception
    assert "1 at a time" in got.stdout and "3 at a time" in got.stdout and "ttft p50" in got.stdout
    prompts = [body["messages"][0]["content"] for body in server.bodies if body["max_tokens"] > 1]
    assert len(prompts) == len(set(prompts)) == 8
    content = json.loads(written.read_text())
    assert [one["load"] for one in content["runs"]] == [{"concurrency": 1}, {"concurrency": 3}]
    assert ReportPage(html.read_text(encoding="utf-8")).plots[0] == "load-goodput"
    again = compare(written, written)
    assert again.exit_code == 0, again.exception
    assert "sweep.json (2), 3 at a time" in again.stdout


@pytest.mark.parametrize("option", ["--html", "--output"])
def test_a_file_that_cannot_be_written_is_an_error_before_the_run(tmp_path: Path, option: str) -> None:
    with fake_server() as server:
        for path, message in ((tmp_path, "it is a folder"), (tmp_path / "absent" / "x", "there is no folder")):
            got = run(server, option, path)
            assert got.exit_code == 1 and message in str(got.exception)
        assert server.bodies == []
        got = run(server, "--html", tmp_path / "x", "--output", tmp_path / "." / "x")
        assert "--html would overwrite" in str(got.exception) and server.bodies == []


def test_a_report_of_a_run_without_an_answer(tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    with fake_server(Behaviour(faults=dict.fromkeys(range(1, 20), "http_429"))) as server:
        assert run(server, "--warm-up", 0, "--html", html).exit_code == 1
    page = ReportPage(html.read_text(encoding="utf-8"))
    assert "No request completed" in page.text and "4 × (too many)" in page.text


def test_a_password_of_the_address_is_not_written(tmp_path: Path) -> None:
    html, written = tmp_path / "report.html", tmp_path / "run.json"
    with fake_server() as server:
        url = server.url.replace("//", "//me:secret-word@")
        assert run(server, "--base-url", url, "--html", html, "--output", written).exit_code == 0
    for path in (html, written):
        assert "secret-word" not in path.read_text() and server.url in path.read_text()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number in range(3):
        paths.append(tmp_path / f"run{number}.json")
        paths[-1].write_text(json.dumps(result(records(20, seed=number, slow=1 + number))))
    return paths


def test_a_report_of_a_comparison_is_written_even_if_it_got_worse(files: list[Path], tmp_path: Path) -> None:
    html = tmp_path / "report.html"
    got = compare(*files, "--html", html)
    assert got.exit_code == 1 and "worse by more than 5%" in str(got.exception)
    assert "run1\n" in got.stdout and "run2\n" in got.stdout and "0.9" in got.stdout
    page = ReportPage(html.read_text(encoding="utf-8"))
    assert len(page.plot("ttft").lines()) == 3


def test_a_report_does_not_replace_a_result(files: list[Path]) -> None:
    before = files[1].read_text()
    got = compare(*files, "--html", files[1])
    assert got.exit_code == 1 and "would overwrite" in str(got.exception)
    assert files[1].read_text() == before


def test_files_of_earlier_versions_and_of_other_commands(files: list[Path]) -> None:
    files[0].write_text(json.dumps(as_of_an_earlier_version(json.loads(files[0].read_text()))))
    got = compare(files[0], files[0])
    assert got.exit_code == 0 and "95 %" not in got.stdout
    files[1].write_text(json.dumps({"format": 1, "kind": "latency", "figures": [], "workload": {}}))
    got = compare(*files)
    assert "written by `antiphon bench latency`" in str(got.exception)
    content = json.loads(files[2].read_text())
    files[1].write_text(json.dumps({"format": 1, "kind": "sweep", "runs": [content, content]}))
    assert "run2.json at 1" in str(compare(files[1], files[2]).exception)
    content["series"]["latency_ms"]["ttft"]["ms"][0] = 1e9
    files[2].write_text(json.dumps(content))
    assert "the series of a result cannot be read" in str(compare(files[2], files[2]).exception)


def test_numbers_of_a_result_are_one_line(tmp_path: Path) -> None:
    written = tmp_path / "run.json"
    with fake_server() as server:
        assert run(server, "--output", written, "--model", "[\n1,\n2]").exit_code == 0
    text = written.read_text()
    assert json.loads(text)["target"]["model"] == "[\n1,\n2]"
    assert len(text.splitlines()) < 400 and max(map(len, text.splitlines())) > 100
