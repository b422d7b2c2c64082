"""Python programs in forks of a process that has imported their modules, since the imports take seconds.

A *template* is a process that has imported some modules and does nothing else. `Template.start` forks it; the fork runs
`python -c CODE ARGUMENT…` with its own standard streams, variables and folder, in a session of its own, and exits as an
interpreter does. Its parent is the template, which reports its status. Programs whose start is under test are started
by `subprocess` instead.
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
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

START_SECONDS = 120.0
MESSAGE_BYTES = 1 << 20
#: Lowest free descriptor: above all descriptors of a template.
FIRST_FREE = 900

#: Modules to import: for commands without a model; for commands with a model, servers and engine processes; and for
#: tests of what a command imports. A name that ends with .* stands for all modules of a package.
LIGHT_MODULES = ("antiphon.cli.app", "antiphon.cli.chat.loop", "prompt_toolkit", "rich.markdown")
ENGINE_MODULES = (
    *LIGHT_MODULES,
    "antiphon.cli.local.session",
    "antiphon.models.*",
    "antiphon.runtime.frontend.engine",
    "antiphon.runtime.process.worker",
    "antiphon.server.launch",
)
BARE_MODULES = ("antiphon.cli.app",)
#: Environment of templates, copied at import because a test may change the current one.
ENVIRONMENT = dict(os.environ)


def home_is_shared() -> bool:
    """Return whether the models folder is that of all tests, rather than one that the current test has set."""
    return os.environ.get("ANTIPHON_HOME") == ENVIRONMENT.get("ANTIPHON_HOME")


# -- in the process of the tests ------------------------------------------------------------------------------------


class Fork:
    """Forked program, with the part of `subprocess.Popen`'s interface that tests and `EngineProcess` use."""

    def __init__(self) -> None:
        self.pid = 0
        self.stdout: IO[bytes] | None = None
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
    """Connection to a template, over a socket, that requests forks. Safe to use from any thread."""

    def __init__(self, requests: socket.socket) -> None:
        self._lock = threading.Lock()
        self._forks: list[Fork] = []
        self._socket = requests
        threading.Thread(target=self._read, name="forks", daemon=True).start()

    @contextlib.contextmanager
    def other_socket(self) -> Iterator[int]:
        """Yield the descriptor of a socket through which another process can request forks.

        It is closed here afterwards.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps({}).encode()], [theirs.fileno()])
            yield ours.fileno()

    def start(
        self,
        code: str,
        arguments: Sequence[str],
        streams: Sequence[int],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> Fork:
        """Run `python -c CODE ARGUMENT…` in a fork; `streams` become its descriptors from 0 on.

        A terminal as standard input becomes the controlling terminal.
        """
        variables = dict(os.environ if environment is None else environment)
        request: dict[str, Any] = {"code": code, "arguments": [*arguments], "environment": variables}
        request["folder"] = str(folder or Path.cwd())
        fork = Fork()
        with self._lock:
            data = json.dumps({**request, "number": len(self._forks)}).encode()
            self._forks.append(fork)
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
        more: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end; return its status and output.

        `stdout` is a descriptor for its standard output; the descriptors in `more` become its descriptors from 3 on.
        """
        with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            given.write(stdin)
            given.seek(0)
            written = out.fileno() if stdout is None else stdout
            streams = (given.fileno(), written, errors.fileno(), *more)
            status = self.start(code, arguments, streams, environment).wait()
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
        for fork in self._forks:  # the template has ended
            if fork.returncode is None:
                fork.returncode = -signal.SIGKILL
                fork.has_ended.set()


@cache
def template(*modules: str) -> Template:
    """Return the template that has imported these modules; it starts on first use and ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, str(theirs.fileno()), *modules],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        env=ENVIRONMENT,
        process_group=0,
    )
    theirs.close()

    def close() -> None:
        ours.shutdown(socket.SHUT_RDWR)
        process.wait(60)

    atexit.register(close)
    return Template(ours)


# -- in the template --------------------------------------------------------------------------------------------------


def serve(first: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and report each fork's process id and status; return the request in the fork, else None.

    A message without a number passes another socket for requests. The template ends when the first socket closes.
    """
    children: dict[int, tuple[socket.socket, int, int]] = {}  # requester's socket, number and process id, by pidfd
    with selectors.DefaultSelector() as selector:
        selector.register(first, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if not isinstance(key.fileobj, socket.socket):
                    requests, number, pid = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with contextlib.suppress(OSError):
                        requests.send(json.dumps({"number": number, "status": status}).encode())
                    continue
                requests = key.fileobj
                try:
                    data, files, _, _ = socket.recv_fds(requests, MESSAGE_BYTES, 8)
                except ConnectionResetError:  # the requesting process was killed
                    data, files = b"", []
                if not data and requests is first:
                    return None
                if not data:
                    selector.unregister(requests)
                    requests.close()
                    continue
                request: dict[str, Any] = json.loads(data)
                if "number" not in request:
                    selector.register(socket.socket(fileno=files[0]), selectors.EVENT_READ)
                    continue
                pid = os.fork()
                if pid == 0:
                    for own in selector.get_map().values():
                        if isinstance(own.fileobj, socket.socket):
                            own.fileobj.detach()  # `become` closes its descriptor
                    return {**request, "streams": files}
                for file in files:
                    os.close(file)
                watched = os.pidfd_open(pid)
                children[watched] = requests, request["number"], pid
                selector.register(watched, selectors.EVENT_READ)
                with contextlib.suppress(OSError):
                    requests.send(json.dumps({"number": request["number"], "pid": pid}).encode())


def become(request: dict[str, Any]) -> None:
    """Turn this fork into the program: set its session, streams, variables, folder and arguments."""
    os.setsid()
    above = [fcntl.fcntl(stream, fcntl.F_DUPFD, FIRST_FREE) for stream in request["streams"]]
    os.closerange(3, FIRST_FREE)
    for number, stream in enumerate(above):
        os.dup2(stream, number)
        os.close(stream)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    sys.stdin = os.fdopen(0, closefd=False)  # the template's stdin has cached whether it is seekable
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["arguments"]]


def main() -> None:
    for name in sys.argv[2:]:
        package = importlib.import_module(name.removesuffix(".*"))
        if name.endswith(".*"):
            for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
                importlib.import_module(module.name)
    gc.freeze()
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        become(request)
        exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
