"""`Supervisor`: keeps an engine process running: it watches the process and restarts it after its death."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.process.engine_process import EngineProcess
from antiphon.runtime.process.messages import FromEngine, Shutdown
from antiphon.runtime.process.restart_policy import RestartPolicy

logger = logging.getLogger("antiphon.engine")

START_SECONDS = 120.0


class EngineState(StrEnum):
    """State of an engine process. Only READY accepts requests; `EngineClient.cause` explains any other state."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


class Supervisor(ABC):
    """Supervisor of an engine process, for one event loop. `options` are the fields of `EngineConfig`.

    After each death the process is started again, after a delay given by the policy. The state is FAILED if the first
    start fails, or if the policy gives up. Calls that were open when the process died fail and are not repeated.
    """

    process_class = EngineProcess

    def __init__(self, options: Mapping[str, Any], *, restarts: RestartPolicy, watchdog_seconds: float) -> None:
        self.state = EngineState.STARTING
        self.cause: str | None = "the engine process is starting"
        #: Number of restarts so far.
        self.restarts = 0
        self._options = dict(options)
        self._policy = restarts
        self._watchdog_seconds = watchdog_seconds
        self._changed = asyncio.Event()
        self._process: EngineProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._start_error: AntiphonError | None = None
        self._ready_since: float | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the engine process; None while no process runs."""
        return None if self._process is None else self._process.pid

    # -- for the subclass ---------------------------------------------------------------------------------------

    @abstractmethod
    def _take(self, message: FromEngine) -> None: ...

    @abstractmethod
    async def _prepare(self, process: EngineProcess) -> None:
        """Restore the state of the previous process in a newly started one."""

    @abstractmethod
    def _fail_calls(self, message: str) -> None:
        """Fail all open calls, because the process has died."""

    @abstractmethod
    def _gave_up(self) -> None:
        """Drop the state of the process, which will not be started again."""

    # -- the life of the process --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when the process is up (state READY, no models). Wrong options raise `InvalidRequestError`.

        A failed first start is not repeated.
        """
        if self._supervisor is not None:
            raise InvalidRequestError("the engine client was started already")
        self._supervisor = asyncio.create_task(self._supervise(), name="antiphon-engine-supervisor")
        try:
            await self._until_ready()
        except EngineError:
            raise self._start_error or EngineError(f"the engine process did not start: {self.cause}") from None

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    async def wait_for_failure(self) -> EngineError:
        """Return the cause once the process will not be started again; wait for ever if it is closed before."""
        while self.state is not EngineState.FAILED:
            await self._changed.wait()
        return EngineError(f"the engine process cannot be started: {self.cause}")

    def _set(self, state: EngineState, cause: str | None) -> None:
        if self.state is EngineState.CLOSED:
            return
        self.state, self.cause = state, cause
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _not_ready(self) -> EngineError:
        return EngineError(f"the engine is {self.state}: {self.cause}")

    async def _until_ready(self) -> EngineProcess:
        """Wait while the process starts or restarts; return it, or raise `EngineError` if it is not READY then."""
        while self.state in (EngineState.STARTING, EngineState.RESTARTING):
            await self._changed.wait()
        return self._ready_process()

    def _ready_process(self) -> EngineProcess:
        if self.state is not EngineState.READY or self._process is None:
            raise self._not_ready()
        return self._process

    async def _supervise(self) -> None:
        while True:
            cause = await self._live()
            if self.state is EngineState.CLOSED:
                return
            now, ready_since = time.monotonic(), self._ready_since
            self._ready_since = None
            delay = self._policy.next_delay(now, None if ready_since is None else now - ready_since)
            gave_up = self.state is EngineState.STARTING or self._start_error is not None or delay is None
            many = f" ({self._policy.num_deaths} times in a row)" if self._policy.num_deaths > 1 else ""
            self._set(EngineState.FAILED if gave_up else EngineState.RESTARTING, f"{cause}{many}")
            self._fail_calls(f"the engine process died: {cause}")
            if delay is None or gave_up:
                logger.error("the engine process died: %s%s; giving up", cause, many)
                self._gave_up()
                return
            logger.error("the engine process died: %s%s; restarting it in %.1f s", cause, many, delay)
            await asyncio.sleep(delay)
            self.restarts += 1

    async def _live(self) -> str:
        """Start the process and wait for its end; return the cause of its end."""
        try:
            process = self.process_class(self._options, min(1.0, self._watchdog_seconds / 4), self._take)
        except Exception as error:
            return f"it cannot be started: {type(error).__name__}: {error}"
        self._process = process
        tasks = [asyncio.create_task(self._begin(process)), asyncio.create_task(self._watch(process))]
        try:
            status = await process.exited
            return str(self._start_error) if self._start_error is not None else process.cause(status)
        finally:
            for task in tasks:
                task.cancel()
            self._process = None
            process.close()

    async def _begin(self, process: EngineProcess) -> None:
        await process.started
        try:
            await self._prepare(process)
        except Exception as error:
            logger.exception("the engine process could not be prepared")
            process.kill(f"it could not be prepared: {type(error).__name__}: {error}")
            return
        self._ready_since = time.monotonic()
        self._set(EngineState.READY, None)

    async def _watch(self, process: EngineProcess) -> None:
        """Kill the process when a step takes too long, or when it sends no message for too long.

        Silence is measured in iterations rather than by the clock, which also counts the time in which the machine
        slept.
        """
        limit = self._watchdog_seconds
        look = min(1.0, limit / 4)
        done, _ = await asyncio.wait([process.started], timeout=START_SECONDS)
        if not done:
            process.kill(f"it did not start within {START_SECONDS:.0f} s")
            return
        silence, seen = 0.0, process.beats
        while True:
            await asyncio.sleep(look)
            silence = silence + look if process.beats == seen else 0.0
            seen = process.beats
            busy = process.last_beat.busy_seconds
            if busy > limit:
                process.kill(f"a step ran for {busy:.1f} s, longer than the watchdog's {limit:g} s")
            elif silence > limit:
                process.kill(f"it gave no sign of life for {silence:.1f} s, longer than the watchdog's {limit:g} s")

    async def close(self, grace: float = 5.0) -> None:
        """End the process: open streams raise `EngineError`; after `grace` seconds it is killed."""
        self._set(EngineState.CLOSED, "the engine was closed")
        self._fail_calls("the engine was closed")
        self._gave_up()
        supervisor, process = self._supervisor, self._process
        if supervisor is None:
            return
        if process is None:
            supervisor.cancel()
        else:
            process.send(Shutdown())
            await asyncio.wait([supervisor], timeout=grace)
            process.kill()
        with contextlib.suppress(asyncio.CancelledError):
            await supervisor
