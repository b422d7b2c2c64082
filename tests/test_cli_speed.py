"""Commands that compute nothing load nothing heavy: help, version and list answer before torch could be imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.programs.command_line import PROGRAM
from support.programs.forks import BARE_MODULES, template

HEAVY = {"torch", "numpy", "transformers", "tokenizers", "gguf", "jinja2", "rich", "pydantic"}
COMMANDS = [
    "serve",
    "config",
    "bench",
    "run",
    "chat",
    "batch",
    "embed",
    "transcribe",
    "speak",
    "pull",
    "list",
    "info",
    "rm",
]
QUICK = [["--help"], ["--version"], ["list"], *([name, "--help"] for name in COMMANDS)]


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_nothing_heavy_is_imported(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    code = f"""
import sys
sys.argv = ["antiphon", *{arguments!r}]
from antiphon.cli.app import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    result = template(*BARE_MODULES).run(code, ())
    assert result.returncode == 0 and result.stdout
    loaded = {name.partition(".")[0] for name in result.stderr.split()}
    assert "antiphon" in loaded and loaded & HEAVY == set()


def test_a_command_imports_no_other_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    code = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    command = [sys.executable, "-c", code + PROGRAM, "list"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()
    assert "antiphon.cli.catalog.stored" in loaded
    assert [name for name in loaded if name.startswith(("antiphon.cli.text.", "antiphon.cli.serving."))] == []


def test_a_command_imports_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path))
    code = "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr)); "
    command = [sys.executable, "-c", code + PROGRAM, "list"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout and int(result.stderr) < 250  # each takes about a millisecond to import


def test_a_bad_parameter_is_refused_before_torch_is_loaded(tmp_path: Path) -> None:
    code = """
import sys
sys.argv = ["antiphon", "run", "smollm2-135m", "hello", "--temperature", "-1"]
from antiphon.cli.app import main
try:
    main()
except SystemExit as ended:
    assert ended.code == 2
assert "torch" not in sys.modules
"""
    assert template(*BARE_MODULES).run(code, ()).returncode == 0
