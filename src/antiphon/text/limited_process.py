"""`LimitedProcesses`: untrusted work in separate processes, which have limits and can be killed."""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import IO

from antiphon.environment import inherited
from antiphon.errors import AntiphonError, OverloadedError
from antiphon.text.limited_worker import ANSWER, OUT_OF_MEMORY, READY, REQUEST

#: Timeout in seconds for the start of a process, generous for a busy machine.
START_SECONDS = 60.0
#: Seconds after the limit until a process is killed; its own timer usually ends it sooner.
GRACE_SECONDS = 10.0
#: Maximum seconds that work waits for a free process.
WAIT_SECONDS = 30.0
#: Environment variables that a process inherits: none with keys.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TZ", "LANG", "LC_ALL", "SYSTEMROOT")


class LimitExceededError(AntiphonError):
    """Work that exceeded its time or memory, or ended its process; the message says which."""


class LimitedProcesses:
    """A pool of processes that run one module, started on demand and then reused. Thread-safe."""

    def __init__(self, module: str, max_processes: int) -> None:
        self._module = module
        self._slots = threading.Semaphore(max_processes)
        self._lock = threading.Lock()
        self._idle: list[LimitedProcess] = []

    def ask(self, request: bytes, seconds: float) -> bytes:
        """Return the answer to a request, or raise `LimitExceededError` after `seconds` at the latest."""
        if not self._slots.acquire(timeout=WAIT_SECONDS):
            raise OverloadedError(f"other requests have taken all of {self._module} for {WAIT_SECONDS:g} s")
        try:
            process = self._take()
            try:
                return process.ask(request, seconds)
            finally:
                if process.is_usable:
                    with self._lock:
                        self._idle.append(process)
        finally:
            self._slots.release()

    def _take(self) -> LimitedProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and process.is_running:
            return process
        if process is not None:
            process.close()
        return LimitedProcess(self._module)

    @property
    def idle(self) -> list[int]:
        """Ids of the processes that wait for work."""
        with self._lock:
            return [process.pid for process in self._idle]

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


class LimitedProcess:
    """A process that handles one request at a time."""

    def __init__(self, module: str) -> None:
        environment = inherited(ENVIRONMENT)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-P", "-m", module]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            raise LimitExceededError(f"could not start a process: {error}") from error
        self.is_usable = True
        self._is_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: bytes, seconds: float) -> bytes:
        try:
            answer = self._answer(request, seconds)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self.close()
            raise
        if answer is None:
            raise LimitExceededError(self._cause(seconds))
        return answer

    def _answer(self, request: bytes, seconds: float) -> bytes | None:
        """Return the answer, or None if the process ended before it had sent all of it."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        if not self._is_ready:
            if not _has_data(answers, START_SECONDS):
                raise LimitExceededError(f"got no process: a new one was not ready after {START_SECONDS:g} s")
            if answers.read(len(READY)) != READY:
                return None
            self._is_ready = True
        requests.write(REQUEST.pack(len(request), seconds) + request)
        requests.flush()
        if not _has_data(answers, seconds + GRACE_SECONDS):
            raise LimitExceededError(f"took more than {seconds:g} s")
        header = answers.read(ANSWER.size)
        if len(header) < ANSWER.size:
            return None
        size = ANSWER.unpack(header)[0]
        answer = answers.read(size)
        return answer if len(answer) == size else None

    def _cause(self, seconds: float) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)
        status = self._process.returncode
        self.close()
        if status in (-signal.SIGALRM, None):
            return f"took more than {seconds:g} s"
        return "took too much memory" if status == OUT_OF_MEMORY else f"ended its process (status {status})"

    def close(self) -> None:
        self.is_usable = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _has_data(pipe: IO[bytes], seconds: float) -> bool:
    """Return whether the pipe has data or ends within `seconds`.

    `select` would reject descriptors above 1,023.
    """
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


@cache
def limited_processes(module: str, max_processes: int) -> LimitedProcesses:
    """Return this program's pool of processes for the module."""
    processes = LimitedProcesses(module, max_processes)
    atexit.register(processes.close)
    return processes
