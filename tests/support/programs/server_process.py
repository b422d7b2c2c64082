"""Resources of a server's processes, read from Linux's `/proc`: processor time, memory, open files, children."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import AntiphonError, UnsupportedError


def _proc(pid: int, name: str) -> Path:
    path = Path(f"/proc/{pid}/{name}")
    if not Path("/proc/self/stat").exists():
        raise UnsupportedError("this machine has no /proc to read a process's figures from")
    return path


def cpu_seconds(pid: int) -> float:
    """Return user and system seconds of all threads so far, including ended threads."""
    fields = _proc(pid, "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    return int(_proc(pid, "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def num_open_files(pid: int) -> int:
    return len(list(_proc(pid, "fd").iterdir()))


def num_threads(pid: int) -> int:
    return len(list(_proc(pid, "task").iterdir()))


def children(pid: int) -> list[int]:
    """Return the ids of direct child processes, whichever thread started them."""
    found: list[int] = []
    for task in _proc(pid, "task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


@dataclass(frozen=True)
class ServerProcess:
    url: str
    pid: int

    def engine_pid(self) -> int:
        """Return the id of the engine process under `antiphon serve`."""
        for child in children(self.pid):
            if b"antiphon.runtime.process.worker" in _proc(child, "cmdline").read_bytes():
                return child
        raise AntiphonError("the server has no engine process")


@contextmanager
def started_server(
    command: list[str], url: str | None, ready_path: str, seconds: float = 120.0
) -> Iterator[ServerProcess]:
    """Run a server's command until the block ends; yield once `ready_path` answers 200.

    Without a `url`, the address is the first one that the server prints.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + seconds
            while True:
                printed = _printed(log.fileno())
                address = url or next(iter(re.findall(r"http://[\w.:\[\]-]+:\d+", printed)), None)
                if address is not None and _answers(address + ready_path):
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise AntiphonError(f"{Path(command[0]).name} did not get ready: {printed[-2000:]}")
                time.sleep(0.05)
            yield ServerProcess(address, process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def antiphon_server(*arguments: str) -> Iterator[ServerProcess]:
    """Run `antiphon serve` of this installation on a free port, with these models and options."""
    program = [sys.executable, "-c", "from antiphon.cli.app import main; main()"]
    command = [*program, "serve", *arguments, "--port", "0", "--no-log-requests"]
    with started_server(command, None, "/readyz") as server:
        yield server


def _printed(descriptor: int) -> str:
    return os.pread(descriptor, 1 << 20, 0).decode("utf-8", "replace")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
