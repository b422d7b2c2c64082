"""Python programs in forks of a process that has imported what they need, so that none of them takes seconds to import.

A *template* is a process that has imported some modules and does nothing else. `Template.start` forks it; the fork runs
`python -c CODE ARGUMENT…` with its own standard streams, variables and folder, in a session of its own, and ends as an
interpreter ends. Programs whose start is tested are started by `subprocess` instead.

Run as a script, this file is the template.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

START_SECONDS = 120.0
MESSAGE_BYTES = 1 << 20

#: Modules of commands that run a model, of commands that do not, of servers, and of tests of what a command imports.
ENGINE_MODULES = (
    "antiphon.cli.app",
    "antiphon.cli.chat.loop",
    "antiphon.cli.session",
    "antiphon.models.registry",
    "antiphon.runtime.frontend.engine",
    "prompt_toolkit",
    "rich.markdown",
)
LIGHT_MODULES = ("antiphon.cli.app", "antiphon.cli.chat.loop", "prompt_toolkit", "rich.markdown")
SERVER_MODULES = (
    "antiphon.cli.app",
    "antiphon.runtime.process.client",
    "antiphon.server.launch",
)
BARE_MODULES = ("antiphon.cli.app",)


# -- in the process of the tests ------------------------------------------------------------------------------------


class Fork:
    """The part of `subprocess.Popen` that tests use. The template is its parent and reports its status."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pid = 0
        self.returncode: int | None = None
        self.has_started = threading.Event()
        self.has_ended = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self.has_ended.wait(timeout):
            raise subprocess.TimeoutExpired("a fork", timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Template:
    """Used from any thread. The template ends with the process of the tests."""

    def __init__(self, modules: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._forks: list[Fork] = []
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno()), *modules],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
        theirs.close()
        threading.Thread(target=self._read, name="forks", daemon=True).start()

    def start(
        self,
        code: str,
        arguments: Sequence[str],
        streams: tuple[int, int, int],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Fork:
        """Run `python -c CODE ARGUMENT…` with these standard streams; a terminal becomes the controlling one."""
        variables = dict(os.environ if environment is None else environment)
        request: dict[str, Any] = {"code": code, "arguments": [*arguments], "environment": variables}
        with self._lock:
            fork = Fork(len(self._forks))
            self._forks.append(fork)
            data = json.dumps({**request, "number": fork.number, "folder": str(folder or Path.cwd())}).encode()
            socket.send_fds(self._socket, [data], streams)
        if not fork.has_started.wait(START_SECONDS):
            raise TimeoutError(f"no program was forked within {START_SECONDS:g} s")
        return fork

    def run(
        self,
        code: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        stdin: str = "",
        stdout: int | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; with `stdout`, its standard output goes there."""
        with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            given.write(stdin)
            given.seek(0)
            written = out.fileno() if stdout is None else stdout
            status = self.start(code, arguments, (given.fileno(), written, errors.fileno()), environment).wait()
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess([*arguments], status, out.read(), errors.read())

    def _read(self) -> None:
        while data := self._socket.recv(MESSAGE_BYTES):
            told = json.loads(data)
            fork = self._forks[told["number"]]
            if "pid" in told:
                fork.pid = told["pid"]
                fork.has_started.set()
            else:
                fork.returncode = told["status"]
                fork.has_ended.set()

    def close(self) -> None:
        """End the template. It does not end its forks."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._process.wait(60)


@cache
def template(*modules: str) -> Template:
    """The template with these modules; it is started on first use."""
    made = Template(modules)
    atexit.register(made.close)
    return made


# -- in the template --------------------------------------------------------------------------------------------------


def serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and report each fork's process id and status. Return the request in the fork."""
    children: dict[int, tuple[int, int]] = {}  # number and process id by pidfd
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd != requests.fileno():
                    number, pid = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with contextlib.suppress(OSError):
                        requests.send(json.dumps({"number": number, "status": status}).encode())
                    continue
                data, streams, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 3)
                if not data:
                    return None
                request: dict[str, Any] = json.loads(data)
                pid = os.fork()
                if pid == 0:
                    for child in children:
                        os.close(child)
                    return {**request, "streams": streams}
                for stream in streams:
                    os.close(stream)
                watched = os.pidfd_open(pid)
                children[watched] = request["number"], pid
                selector.register(watched, selectors.EVENT_READ)
                requests.send(json.dumps({"number": request["number"], "pid": pid}).encode())


def become(request: dict[str, Any]) -> None:
    """Be the program: its session, streams, variables and folder."""
    os.setsid()
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]


def main() -> None:
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = serve(requests)
    if request is not None:
        become(request)
        exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
