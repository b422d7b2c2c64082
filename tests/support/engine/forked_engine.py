"""Engine processes forked from one that has imported the engine already.

Starting an engine process takes seconds, nearly all of them imports. A *template* is a process that has imported what
an engine process imports and does nothing else; `ForkedClient` has its engine processes forked from it. A fork runs the
same program with its own arguments, environment, folder, standard input and output, and lives and dies as any engine
process does. The one difference is its parent, which tells the status of its end.

Tests of the start itself use `EngineClient`. Elsewhere than on Linux, `ForkedClient` is the same.

Run as a script, this file is the template.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import itertools
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from typing import IO, Any, NoReturn, cast

from antiphon.runtime.process.client import EngineClient
from antiphon.runtime.process.engine_process import EngineProcess

START_SECONDS = 120.0
MESSAGE_BYTES = 1 << 20
#: Beginnings of the names of variables that change what an interpreter imports or how a library starts.
START_VARIABLES = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "OPENBLAS_", "TORCH_", "CUDA_", "TRITON_")


def start_variables() -> dict[str, str]:
    """The variables that a template must share with its forks."""
    return {name: value for name, value in os.environ.items() if name.startswith(START_VARIABLES)}


#: The environment of the template. A test may have changed the present one.
ENVIRONMENT, SHARED_VARIABLES = dict(os.environ), start_variables()


# -- in the process of the tests ------------------------------------------------------------------------------------


class ForkedProcess:
    """A fork as `subprocess.Popen` would show it, as far as `EngineProcess` looks."""

    def __init__(self) -> None:
        self.pid = 0
        self.stdout: IO[bytes] | None = None
        self.returncode: int | None = None
        self.has_started = threading.Event()
        self.has_ended = threading.Event()

    def wait(self, timeout: float | None = None) -> int:
        if not self.has_ended.wait(timeout):
            raise subprocess.TimeoutExpired("an engine process", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Template:
    """The process that engine processes are forked from, for all threads."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._forks: dict[int, ForkedProcess] = {}
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=ENVIRONMENT,
            process_group=0,
        )
        theirs.close()
        threading.Thread(target=self._read, name="forked-engines", daemon=True).start()

    def fork(self, arguments: list[str], stdin: int) -> ForkedProcess:
        reading, writing = os.pipe()
        fork = ForkedProcess()
        with self._lock:
            number = next(self._numbers)
            self._forks[number] = fork
            request = {"number": number, "arguments": arguments, "folder": os.getcwd(), "environment": {**os.environ}}
            socket.send_fds(self._socket, [json.dumps(request).encode()], [stdin, writing])
        os.close(writing)
        fork.stdout = os.fdopen(reading, "rb")
        if not fork.has_started.wait(START_SECONDS):
            raise TimeoutError(f"no engine process was forked in {START_SECONDS:g} s")
        return fork

    def _read(self) -> None:
        while data := self._socket.recv(MESSAGE_BYTES):
            told = json.loads(data)
            fork = self._forks[told["number"]]
            if "pid" in told:
                fork.pid = told["pid"]
                fork.has_started.set()
            else:
                self._ended(fork, told["status"])
        for fork in self._forks.values():  # the template has died
            self._ended(fork, -signal.SIGKILL)

    @staticmethod
    def _ended(fork: ForkedProcess, status: int) -> None:
        if not fork.has_ended.is_set():
            fork.returncode = status
            fork.has_ended.set()

    def close(self) -> None:
        """End the template; its forks end with the tests that started them."""
        self._socket.close()
        self._process.kill()
        self._process.wait()


@cache
def template() -> Template:
    """The template of this process of tests."""
    made = Template()
    atexit.register(made.close)
    return made


class ForkedEngineProcess(EngineProcess):
    def _start(self, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        if sys.platform != "linux" or start_variables() != SHARED_VARIABLES:
            return super()._start(arguments, reading)
        return cast("subprocess.Popen[bytes]", template().fork(arguments, reading))


class ForkedClient(EngineClient):
    """An engine client whose engine processes start at once."""

    process_class = ForkedEngineProcess


# -- in the template --------------------------------------------------------------------------------------------------


def serve(requests: socket.socket) -> None:
    """Fork for each request, and tell the process id and, at its end, the status of each fork."""
    children: dict[int, tuple[int, int]] = {}  # number and process id by pidfd
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    watched = cast("int", key.fileobj)
                    number, pid = children.pop(watched)
                    selector.unregister(watched)
                    os.close(watched)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    requests.send(json.dumps({"number": number, "status": status}).encode())
                    continue
                data, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 2)
                if not data:
                    return
                request: dict[str, Any] = json.loads(data)
                pid = os.fork()
                if pid == 0:
                    run(request, *files)
                for file in files:
                    os.close(file)
                watched = os.pidfd_open(pid)
                children[watched] = request["number"], pid
                selector.register(watched, selectors.EVENT_READ)
                requests.send(json.dumps({"number": request["number"], "pid": pid}).encode())


def run(request: dict[str, Any], stdin: int, output: int) -> NoReturn:
    """Become an engine process."""
    from antiphon.runtime.process import worker

    try:
        os.setpgid(0, 0)
        for source, target in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.closerange(3, 1024)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        worker.main(request["arguments"])
    finally:
        os._exit(1)


def import_engine() -> None:
    """Import what an engine process has imported once it has loaded models of every architecture."""
    import antiphon.models
    import antiphon.runtime.process.worker

    for module in pkgutil.walk_packages(antiphon.models.__path__, "antiphon.models."):
        importlib.import_module(module.name)


if __name__ == "__main__":
    import_engine()
    serve(socket.socket(fileno=int(sys.argv[1])))
