"""`EngineProcess`: one engine process, from start to end, in the process that started it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import zmq

from antiphon.runtime.process.messages import Dying, FromEngine, Heartbeat, Started, decode_event, encode
from antiphon.runtime.process.socket_folder import SocketFolder

logger = logging.getLogger("antiphon.engine")

#: Number of last lines of standard error that are kept.
TAIL_LINES = 50
#: Maximum messages that are read before other callbacks of the event loop run.
BURST = 64
#: Maximum seconds to wait for the last lines of standard error of an ended process.
LAST_WORDS_SECONDS = 0.25


class EngineProcess:
    """Engine process, started on creation. Its messages go to `on_event`, in the event loop that created the object.

    The process ends when `close` is called or when the parent process ends, for whatever reason.
    """

    def __init__(
        self, options: Mapping[str, Any], heartbeat_seconds: float, on_event: Callable[[FromEngine], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_event = on_event
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._dying: str | None = None
        self._kill_cause: str | None = None
        self._is_closed = False
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.exited: asyncio.Future[int] = self._loop.create_future()
        self.last_beat = Heartbeat(0, 0.0)
        self.beats = 0  # counts every message, as a sign of life
        self._folder = SocketFolder()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._commands = self._context.socket(zmq.PUSH)
        self._commands.setsockopt(zmq.SNDHWM, 0)
        self._events = self._context.socket(zmq.PULL)
        self._events.setsockopt(zmq.RCVHWM, 0)
        addresses = [f"ipc://{self._folder.path}/{name}" for name in ("commands", "events")]
        self._commands.bind(addresses[0])
        self._events.bind(addresses[1])
        arguments = [*addresses, str(heartbeat_seconds), json.dumps(dict(options))]
        reading, self._lifeline = os.pipe()
        try:
            self._process = self._start(arguments, reading)
        except BaseException:
            os.close(self._lifeline)
            self._context.destroy(linger=0)
            self._folder.remove()
            raise
        finally:
            os.close(reading)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read_errors, name="antiphon-engine-log", daemon=True)
        self._reader.start()
        threading.Thread(target=self._wait, name="antiphon-engine-wait", daemon=True).start()
        self._descriptor = int(self._events.getsockopt(zmq.FD))
        self._loop.add_reader(self._descriptor, self._receive)
        self._receive()

    def _start(self, arguments: list[str], reading: int) -> subprocess.Popen[bytes]:
        """Start the worker with these arguments; the descriptor `reading` is its standard input."""
        # -P: modules must not be imported from the folder in which the server was started.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "antiphon.runtime.process.worker", *arguments],
            stdin=reading,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,  # Ctrl-C in the terminal is for the parent only
        )

    # -- in threads of their own --------------------------------------------------------------------------------

    def _read_errors(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                text = line.decode("utf-8", "replace").rstrip()
                self._tail.append(text)
                logger.warning("%s", text)

    def _wait(self) -> None:
        status = self._process.wait()
        self._reader.join(LAST_WORDS_SECONDS)
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._ended, status)

    # -- in the event loop --------------------------------------------------------------------------------------

    def _ended(self, status: int) -> None:
        while self._read_burst():  # messages sent before its end
            pass
        if not self.exited.done():
            self.exited.set_result(status)

    def send(self, message: msgspec.Struct) -> None:
        if self._is_closed:
            return
        try:
            self._commands.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:  # no process reads at the other end
            self.kill()

    def _receive(self) -> None:
        """Read all messages in bursts. The descriptor signals changes only, so unread ones would not wake it again."""
        if self._read_burst():
            self._loop.call_soon(self._receive)

    def _read_burst(self) -> bool:
        """Read up to BURST messages; return whether there may be more."""
        receive = self._events.recv
        for _ in range(BURST):
            if self._is_closed:
                return False
            try:
                data = receive(zmq.NOBLOCK)
            except zmq.Again:
                return False
            try:
                self._take(decode_event(data))
            except Exception:  # the other messages of the burst must still be read
                logger.exception("a message of %d bytes from the engine process cannot be read", len(data))
        return True

    def _take(self, event: FromEngine) -> None:
        self.beats += 1
        match event:
            case Heartbeat():
                self.last_beat = event
            case Dying():
                self._dying = event.cause
            case Started():
                self._connected()
            case _:
                self._on_event(event)

    def _connected(self) -> None:
        """Complete the start once the commands' socket is connected too; the events' socket is.

        The sockets' names are not needed any more, so the folder is removed now rather than at the end.
        """
        if self._is_closed or self.started.done():
            return
        if not self._commands.poll(0, zmq.POLLOUT):
            self._loop.call_later(0.002, self._connected)
            return
        self._folder.remove()
        self.started.set_result(None)

    def kill(self, cause: str | None = None) -> None:
        """Kill the process. A given `cause` is reported as the cause of its death."""
        if self._kill_cause is None:
            self._kill_cause = cause
        self._process.kill()

    def cause(self, status: int) -> str:
        """Return the cause of the process's end: that of the kill, its own report, or its status and last line."""
        if self._kill_cause or self._dying:
            return self._kill_cause or self._dying or ""
        if status < 0:
            try:
                ending = f"killed by {signal.Signals(-status).name}"
            except ValueError:
                ending = f"killed by signal {-status}"
        else:
            ending = f"exit status {status}"
        words = self._last_lines()
        return f"{ending}: {words}" if words else ending

    def _last_lines(self) -> str:
        lines = [line.strip() for line in self._tail if line.strip()]
        fatal = [line for line in lines if line.startswith("Fatal Python error")]
        return (fatal or lines or [""])[-1][:500]

    def close(self) -> None:
        """Kill the process if it is alive, and free the resources of this side."""
        if self._is_closed:
            return
        self._is_closed = True
        self._process.kill()
        self._loop.remove_reader(self._descriptor)
        self._context.destroy(linger=0)
        os.close(self._lifeline)
        self._folder.remove()
        if not self.started.done():
            self.started.cancel()
