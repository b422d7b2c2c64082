"""`TemplateProcesses`: chat templates rendered in processes of their own, which have limits and can be killed."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from typing import Any

from antiphon.errors import OverloadedError, TemplateError
from antiphon.text.template_worker import MAX_BYTES, OUT_OF_MEMORY, REJECTED, SIZE

#: Wall time of one rendering. Ordinary ones take less than a millisecond, and 8 MB of messages less than a second.
RENDER_SECONDS = 5.0
#: For a process that has just been started, on a busy machine.
START_SECONDS = 10.0
MAX_PROCESSES = 3
#: How long a rendering waits for a process, if others use all of them.
WAIT_SECONDS = 30.0
#: What a process sees of the environment: no keys.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "TZ", "LANG", "LC_ALL", "SYSTEMROOT")


class TemplateProcesses:
    """A few processes that are started when they are needed, and then kept. Safe to share between threads."""

    def __init__(self, max_processes: int = MAX_PROCESSES) -> None:
        self._places = threading.Semaphore(max_processes)
        self._lock = threading.Lock()
        self._idle: list[TemplateProcess] = []

    def render(self, source: str, variables: dict[str, Any], guard: str, seconds: float = RENDER_SECONDS) -> str:
        """The rendered text. Whatever the template does ends in a `TemplateError` after `seconds` at the latest."""
        if not self._places.acquire(timeout=WAIT_SECONDS):
            raise OverloadedError(f"other chat templates have been rendering for {WAIT_SECONDS:g} s")
        try:
            with self._lock:
                process = self._idle.pop() if self._idle else None
            if process is not None and not process.is_running:
                process.close()
                process = None
            if process is None:
                process = TemplateProcess()
            try:
                text = process.render(source, variables, guard, seconds)
            finally:
                if process.is_alive:
                    with self._lock:
                        self._idle.append(process)
            return text
        finally:
            self._places.release()

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()


class TemplateProcess:
    """One process, for one rendering at a time."""

    def __init__(self) -> None:
        environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        command = [sys.executable, "-P", "-m", "antiphon.text.template_worker"]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except OSError as error:
            raise TemplateError(f"no process could be started to render the chat template: {error}") from error
        self.is_alive = True

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def render(self, source: str, variables: dict[str, Any], guard: str, seconds: float) -> str:
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        data = pickle.dumps((source, variables, guard, seconds), protocol=5)
        try:
            requests.write(SIZE.pack(len(data)) + data)
            requests.flush()
            if not select.select([answers], [], [], seconds + START_SECONDS)[0]:  # its own timer did not end it
                self._process.kill()
            header = answers.read(1 + SIZE.size)
            text = answers.read(SIZE.unpack(header[1:])[0]) if len(header) > SIZE.size else b""
        except BrokenPipeError:
            header = b""
        except BaseException:
            self.close()
            raise
        if len(header) <= SIZE.size:
            self.close()
            raise TemplateError(f"the chat template took more than {seconds:g} s, or ended its process")
        if header[:1] == OUT_OF_MEMORY:
            self.close()
            raise TemplateError(f"the chat template takes more than {MAX_BYTES >> 20} MiB of memory")
        if header[:1] == REJECTED:
            raise TemplateError(text.decode("utf-8", "surrogatepass"))
        return text.decode("utf-8", "surrogatepass")

    def close(self) -> None:
        self.is_alive = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


@cache
def template_processes() -> TemplateProcesses:
    """The processes of this program."""
    processes = TemplateProcesses()
    atexit.register(processes.close)
    return processes
