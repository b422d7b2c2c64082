"""What `make run` does, with a tiny model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.models.tiny_model import write_folder
from support.server.http_server import TOOL_TEMPLATE

SCRIPT = Path(__file__).parents[1] / "examples" / "first_question.py"


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
