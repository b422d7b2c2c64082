"""Engine process: `python -m antiphon.runtime.process.worker COMMANDS EVENTS HEARTBEAT OPTIONS`.

`EngineClient` starts it. It ends on `Shutdown`, when its loop fails, or when its parent ends, which closes its standard
input. It ignores the signals that stop a whole terminal or service: the parent drains the calls and then sends
`Shutdown`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, NoReturn

import msgspec
import zmq

from antiphon.engine.core import describe
from antiphon.errors import AntiphonError
from antiphon.runtime.process.messages import Dying, Heartbeat, Rejected, Shutdown, Started, command_decoder, encode
from antiphon.runtime.process.served_engine import ServedEngine

LINGER_MILLISECONDS = 1000


class Outbox:
    """Socket of the events, for all threads. It has its own context, so that closing it waits for no other socket."""

    def __init__(self, address: str) -> None:
        self._lock = threading.Lock()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # a slow server never makes a step wait
        self._socket.setsockopt(zmq.LINGER, LINGER_MILLISECONDS)
        self._socket.connect(address)
        self._is_closed = False

    def send(self, message: msgspec.Struct) -> None:
        data = encode(message)
        with self._lock:
            if not self._is_closed:
                self._socket.send(data, zmq.NOBLOCK)

    def close(self) -> None:
        """Return when all sent messages are on their way, or after LINGER_MILLISECONDS."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._socket.close()
                self._context.term()


def watch_parent() -> None:
    """Exit when standard input ends, whatever this process is doing."""

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        os._exit(0)

    if sys.platform == "linux":
        # The kernel's signal also ends a process whose interpreter is stuck.
        import fcntl

        signal.signal(signal.SIGIO, signal.SIG_DFL)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    threading.Thread(target=wait, name="antiphon-parent", daemon=True).start()


def beat(engine: ServedEngine, outbox: Outbox, interval: float) -> None:
    """Send a heartbeat with the age of the current step every `interval` seconds."""
    while True:
        since = engine.busy_since
        outbox.send(Heartbeat(engine.steps, 0.0 if since is None else time.monotonic() - since))
        time.sleep(interval)


def serve(commands: zmq.Socket[bytes], engine: ServedEngine) -> None:
    """Execute commands until `Shutdown`. A command that cannot be decoded is rejected."""
    decode = command_decoder().decode
    while True:
        data = commands.recv()
        try:
            command = decode(data)
        except Exception as error:
            engine.reject(data, error)
            continue
        if isinstance(command, Shutdown):
            return
        engine.take(command)


def main(arguments: list[str]) -> NoReturn:
    command_address, event_address, heartbeat, options = arguments
    faulthandler.enable()
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    watch_parent()
    outbox = Outbox(event_address)

    def die(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> NoReturn:
        traceback.print_exception(kind, error, trace)
        outbox.send(Dying(describe(error) if isinstance(error, Exception) else kind.__name__))
        outbox.close()
        _exit(1)

    def thread_died(details: Any) -> None:
        die(details.exc_type, details.exc_value, details.exc_traceback)

    threading.excepthook = thread_died
    try:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        commands = context.socket(zmq.PULL)
        commands.setsockopt(zmq.RCVHWM, 0)
        commands.connect(command_address)
        try:
            engine = ServedEngine(outbox.send, json.loads(options))
        except AntiphonError as error:
            outbox.send(Rejected("", type(error).__name__, str(error)))
            outbox.close()
            _exit(2)
        outbox.send(Started(os.getpid()))
        threading.Thread(
            target=beat, args=(engine, outbox, float(heartbeat)), name="antiphon-beat", daemon=True
        ).start()
        serve(commands, engine)
        engine.close()
        outbox.close()
    except BaseException as error:
        die(type(error), error, error.__traceback__)
    _exit(0)


def _exit(status: int) -> NoReturn:
    """Exit at once, without waiting for any thread."""
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1:])
