"""Folders of killed servers are removed at the next start; those of live servers and other things stay."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.runtime.process.socket_folder import LOCK, UNLOCKED_SECONDS, SocketFolder

#: A process that makes a folder with sockets and lives until it is killed.
HOLDER = """
import sys, socket
from antiphon.runtime.process.socket_folder import SocketFolder
folder = SocketFolder()
for name in ("commands", "events"):
    socket.socket(socket.AF_UNIX).bind(f"{folder.path}/{name}")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="f", dir="/tmp"))  # a socket's path must be short
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


def held() -> tuple[subprocess.Popen[str], Path]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_folders_of_killed_processes_are_removed(parent: Path) -> None:
    killed, abandoned = held()
    living, used = held()
    try:
        assert abandoned.parent == used.parent == parent and len(os.listdir(abandoned)) == 3
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
        own = SocketFolder()
        assert not abandoned.exists() and used.exists() and own.path.exists()
        again = SocketFolder()  # in one process too, the folder of another server stays
        assert own.path.exists()
        for folder in (own, again, own):
            folder.remove()
        assert os.listdir(parent) == [used.name]
    finally:
        living.kill()
        living.wait(60)
        for process in (killed, living):
            process.communicate()


def test_the_folder_is_private_and_its_path_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    folder = SocketFolder()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert len(str(folder.path)) < 60
    folder.remove()


def test_what_is_not_a_servers_folder_stays(parent: Path) -> None:
    for name in ("antiphon-notes", "antiphon-new", "antiphon-old", "antiphon-trap", "other"):
        (parent / name).mkdir()
    (parent / "antiphon-notes" / "notes.txt").write_text("mine")
    (parent / "antiphon-notes" / LOCK).touch()
    (parent / "antiphon-trap" / LOCK).symlink_to(parent / "antiphon-notes" / "notes.txt")
    (parent / "antiphon-link").symlink_to(parent / "antiphon-old")
    os.utime(parent / "antiphon-old", (0, (parent / "antiphon-old").stat().st_mtime - UNLOCKED_SECONDS - 60))
    SocketFolder().remove()
    assert sorted(os.listdir(parent)) == ["antiphon-link", "antiphon-new", "antiphon-notes", "antiphon-trap", "other"]
    assert (parent / "antiphon-notes" / "notes.txt").read_text() == "mine"
