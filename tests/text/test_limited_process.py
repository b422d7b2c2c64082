"""`LimitedProcess` when descriptors are many, and when its process ends early or does not start."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.text import limited_process
from antiphon.text.limited_process import LimitedProcess, LimitedProcesses, LimitExceededError

DESCRIPTOR = 1500
ECHO = """
from antiphon.text.limited_worker import serve
serve(lambda request: request, 1 << 30)
"""
CUT = """
import sys
from antiphon.text.limited_worker import ANSWER, READY, REQUEST
sys.stdout.buffer.write(READY)
sys.stdout.buffer.flush()
sys.stdin.buffer.read(REQUEST.size)
sys.stdout.buffer.write(ANSWER.pack(100) + b"short")
"""


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= DESCRIPTOR:
        pytest.skip(f"at most {hard} descriptors are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTOR + 1), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_descriptor_above_1023(many_descriptors: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echo_worker.py").write_text(ECHO, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    class HighPipe(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            assert self.stdout is not None
            high = fcntl.fcntl(self.stdout, fcntl.F_DUPFD_CLOEXEC, DESCRIPTOR)
            self.stdout.close()
            self.stdout = os.fdopen(high, "rb")

    monkeypatch.setattr(subprocess, "Popen", HighPipe)
    process = LimitedProcess("echo_worker")
    try:
        assert process.ask(b"hello", 5.0) == b"hello"
    finally:
        process.close()


def test_an_answer_that_is_cut_off_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cut_worker.py").write_text(CUT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    processes = LimitedProcesses("cut_worker", 1)
    with pytest.raises(LimitExceededError, match="ended its process \\(status 0\\)"):
        processes.ask(b"", 5.0)
    assert not processes.idle


@pytest.mark.parametrize(
    ("program", "start_seconds", "message"),
    [
        ("import time\ntime.sleep(600)", 0.2, "not ready after 0.2 s"),
        ("raise SystemExit(7)", 60.0, "ended its process \\(status 7\\)"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 60.0, "ended its process \\(status -9\\)"),
    ],
)
def test_a_process_that_does_not_start_is_an_error(
    program: str, start_seconds: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no_worker.py").write_text(program, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(limited_process, "START_SECONDS", start_seconds)
    processes = LimitedProcesses("no_worker", 1)
    with pytest.raises(LimitExceededError, match=message):
        processes.ask(b"", 5.0)
    assert not processes.idle
