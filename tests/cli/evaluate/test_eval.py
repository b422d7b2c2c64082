"""`antiphon eval` from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from antiphon.cli.app import app
from antiphon.evaluation.task import ItemResult
from antiphon.evaluation.tasks.choice import Choice
from support.models.tiny_model import write_bert
from support.pages.report_page import ReportPage

TEXT = "hello there, the bells ring twice and the hill tells the tale " * 6


def evaluate(*arguments: Any) -> Any:
    return CliRunner().invoke(app, ["eval", *map(str, arguments)])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def test_a_run_writes_what_a_comparison_reads(tiny_llama: Path, text: Path, tmp_path: Path) -> None:
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    common = (tiny_llama, "--data", text, "--context", 32, "--device", "cpu", "--kv-memory", 16)
    got = evaluate(*common, "--output", one)
    assert got.exit_code == 0, got.exception
    assert "perplexity" in got.stdout and "bits per byte" in got.stdout and "95 % interval" in got.stdout
    result = json.loads(one.read_text())
    assert result["is_complete"] and result["options"] == {"context": 32}
    assert result["total_items"] == len(result["items"]) > 10
    got = evaluate(*common, "--kv-type", "bf16", "--output", other, "--compare", one)
    assert got.exit_code == 0, got.exception
    assert f"this run against {one}" in got.stdout
    assert json.loads(other.read_text())["settings"] == {"kv": "bf16"}
    assert list(json.loads(other.read_text())["comparisons"][0]["metrics"]) == ["perplexity", "bits per byte"]
    files = evaluate("--compare", one, "--compare", other)
    assert files.exit_code == 0, files.exception
    assert f"{other} against {one}" in files.stdout and " p\n" in files.stdout


def test_two_settings_are_compared(tiny_llama: Path, text: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    got = evaluate(
        tiny_llama, "--data", text, "--context", 32, "--limit", 4, "--device", "cpu", "--kv-memory", 16, "--compare",
        "quantize=q4", "--compare", "kv=fp32", "--output", output,
    )  # fmt: skip
    assert got.exit_code == 0, got.exception
    assert "quantize=q4 kv=fp32 against default, 4 items" in got.stdout
    result = json.loads(output.read_text())
    assert result["compared"]["settings"] == {"quantize": "q4", "kv": "fp32"}
    before, after = (one["metrics"]["perplexity"]["value"] for one in (result, result["compared"]))
    assert before != after
    assert result["comparisons"][0]["metrics"]["perplexity"]["difference"] == pytest.approx(after - before)


@pytest.mark.long("measures the speed of four settings")
def test_a_sweep_writes_a_page(tiny_llama: Path, text: Path, tmp_path: Path) -> None:
    html, output = tmp_path / "sweep.html", tmp_path / "sweep.json"
    got = evaluate(
        tiny_llama, "--data", text, "--context", 64, "--device", "cpu", "--kv-memory", 16, "--html", html, "--output",
        output, "--slo", "ttft:60000", "--sweep", "kv=fp32,fp16", "quantize=none,int8",
    )  # fmt: skip
    assert got.exit_code == 0, got.exception
    labels = ["kv=fp32 quantize=none", "kv=fp32 quantize=int8", "kv=fp16 quantize=none", "kv=fp16 quantize=int8"]
    lines = [line for line in got.stdout.splitlines() if line.startswith("kv=")]
    assert [line[:21].strip() for line in lines] == labels
    assert [row["setting"] for row in json.loads(output.read_text())["settings"]] == [
        dict(part.split("=") for part in label.split()) for label in labels
    ]
    assert "quality-speed" in ReportPage(html.read_text(encoding="utf-8")).plots


def interrupted(self: Choice, subject: Any, work: Sequence[Any]) -> Iterator[ItemResult]:
    for question in work[:3]:
        yield ItemResult(question.id, {"correct": 1.0, "correct_per_byte": 0.0, "logprobs": [0.0]})
    raise KeyboardInterrupt


def test_after_an_interruption_the_results_say_so(
    tiny_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Choice, "evaluate", interrupted)
    output = tmp_path / "out.json"
    common = (tiny_llama, "--task", "choice", "--device", "cpu", "--kv-memory", 16)
    got = evaluate(*common, "--output", output, "--compare", "kv=fp32")
    assert got.exit_code == 130
    assert "interrupted: 3 of 24 items were scored" in got.stdout
    result = json.loads(output.read_text())
    assert not result["is_complete"] and len(result["items"]) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a model, or two result files with --compare"),
        (["--compare", "a.json"], "give a model, or two result files with --compare"),
        (["--compare", "kv=int8", "--compare", "a.json"], "give a model, or two result files"),
        (["x", "kv=int8"], "'kv=int8' was not expected"),
        (["x", "--sweep", "kv=fp16", "--compare", "kv=int8"], "give --sweep or --compare, not both"),
        (["x", "--slo", "ttft:1"], "--slo goes with --sweep"),
        (["x", "--html", "a.html"], "--html goes with --sweep"),
        (["x", "--task", "wisdom"], "there is no task 'wisdom'; there are: perplexity, choice"),
        (["x", "--compare", "kv=int9"], "kv is 'int9'; it must be one of"),
        (["x", "--compare", "kv=int8,fp16"], "'kv=int8,fp16' has 2 values"),
        (["x", "--sweep", "size=2"], "there is no setting 'size'"),
        (["x", "--sweep", "kv=fp16", "--slo", "speed:1"], "--slo has 'speed:1'"),
        (["x", "--data", "/absent.txt"], "cannot read /absent.txt"),
        (["x", "--output", "/absent/x"], "there is no folder"),
        (["x", "--compare", "/absent.json"], "cannot read /absent.json"),
        (["whisper-tiny.en"], "whisper-tiny.en is a transcription model; the task perplexity is for text generation"),
        (["all-minilm-l6-v2", "--task", "choice"], "is an embedding model; the task choice is for text generation"),
    ],
)
def test_wrong_arguments_are_one_line(arguments: list[str], message: str) -> None:
    got = evaluate(*arguments)
    assert got.exit_code == 1
    assert message in str(got.exception)
    assert "\n" not in str(got.exception)


def test_a_model_of_another_kind(tmp_path: Path) -> None:
    got = evaluate(write_bert(tmp_path), "--device", "cpu")
    assert got.exit_code == 1 and "is an embedding model" in str(got.exception)


def test_a_malformed_line_is_found_before_a_model_is(tmp_path: Path) -> None:
    data = tmp_path / "items.jsonl"
    data.write_text('{"question": "q", "choices": ["a", "b"], "answer": 0}\n{"question": \n')
    got = evaluate("no-such-model", "--task", "choice", "--data", data)
    assert str(got.exception).startswith(f"{data}:2: this is not JSON")


def test_tasks_and_settings_are_listed() -> None:
    got = evaluate("--list-tasks")
    assert got.exit_code == 0
    assert "perplexity and bits per byte of a text" in got.stdout and "data type of the KV cache: fp32" in got.stdout
