"""`antiphon bench serve` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.cli.app import app
from support.server.fake_openai import Behaviour, FakeServer, fake_server


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
    again = CliRunner().invoke(app, ["bench", "compare", str(written), str(written)])
    assert again.exit_code == 0


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
