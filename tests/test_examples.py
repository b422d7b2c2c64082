"""The examples: what `make run` does, with a tiny model; the cells of the notebook; files that README names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.models.tiny_model import write_folder
from support.server.http_server import TOOL_TEMPLATE

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPT = EXAMPLES / "first_question.py"
MAX_RECORDING_BYTES = 300_000


@pytest.mark.slow
def test_the_first_question_is_answered_and_the_server_ends_by_itself(tmp_path: Path) -> None:
    if not Path(sys.executable).with_name("antiphon").exists():
        pytest.skip("the command is not installed beside this Python")
    folder = write_folder(tmp_path / "tiny-chat", chat_template=TOOL_TEMPLATE)
    command = [sys.executable, str(SCRIPT), str(folder), "--port", "0", "--kv-memory", "16", "--max-output-tokens", "5"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "You: What is the capital of France?\ndefault-chat: " in result.stdout
    assert "memory: weights" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.long("a script starts a server in interpreters of their own")
def test_a_server_that_cannot_start_is_told() -> None:
    command = [sys.executable, str(SCRIPT), "no-such-model"]
    if not Path(sys.executable).with_name("antiphon").exists():
        pytest.skip("the command is not installed beside this Python")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and "no model is called 'no-such-model'" in result.stderr


def test_every_example_is_described_and_the_recording_is_small() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert [name for name in files if f"`{name}`" not in text] == ["README.md"]
    assert (EXAMPLES / "meeting.m4a").stat().st_size < MAX_RECORDING_BYTES


def notebook_cells() -> list[str]:
    notebook = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in notebook["cells"])
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.long("four models of the notebook")
def test_the_cells_of_the_notebook_run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    names: dict[str, object] = {}
    try:
        for cell in notebook_cells():
            exec(compile(cell, "notebook.ipynb", "exec"), names)
    finally:
        if "engine" in names:
            exec("engine.close()", names)
    assert "Paris" in capsys.readouterr().out
    assert "concert in December" in names["transcript"].text  # type: ignore[attr-defined]
    assert names["die"].text in "123456"  # type: ignore[attr-defined]
