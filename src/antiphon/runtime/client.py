"""`EngineClient`: an engine in a process of its own, for asyncio. It watches the process and starts it again."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from antiphon.errors import AntiphonError, EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.engine_process import EngineProcess
from antiphon.runtime.generate_stream import GenerateStream
from antiphon.runtime.messages import (
    AskFigures,
    Embed,
    Embedded,
    Figures,
    Generate,
    Listen,
    Load,
    Loaded,
    Shutdown,
    Speak,
    Transcribe,
    Unload,
)
from antiphon.runtime.open_calls import OpenCalls
from antiphon.runtime.speak_stream import SpeakStream
from antiphon.runtime.transcribe_stream import TranscribeStream

__all__ = ["EngineClient", "EngineState", "GenerateStream"]

logger = logging.getLogger("antiphon.engine")

START_SECONDS = 120.0
DEFAULT_KV_BYTES = 1 << 30  # as in `EngineConfig`, which needs torch
#: After this long without a death, earlier ones are forgotten.
STABLE_SECONDS = 60.0
FIRST_BACK_OFF = 0.25
LONGEST_BACK_OFF = 15.0


class EngineState(StrEnum):
    """READY is the only state in which requests are taken; `EngineClient.cause` says why it is another."""

    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    CLOSED = "closed"


class EngineClient:
    """Used from one event loop. `options` are the fields of `EngineConfig`.

    When the process dies, by itself or by the watchdog, everybody who waits is told; it is started again, later each
    time, and loads the models that it had. After `max_restarts` deaths in a row the state is FAILED.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        max_restarts: int = 5,
        watchdog_seconds: float = 120.0,
        offline: bool = False,
    ) -> None:
        self.state = EngineState.STARTING
        self.cause: str | None = "the engine process is starting"
        #: How often the process was started again, ever.
        self.restarts = 0
        self._options = dict(options)
        self._max_restarts = max_restarts
        self._watchdog_seconds = watchdog_seconds
        self._offline = offline
        self._changed = asyncio.Event()
        self._process: EngineProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._start_error: AntiphonError | None = None
        self._models: dict[str, Loaded] = {}
        self._references: dict[str, str] = {}
        self._loads: dict[str, tuple[str, asyncio.Task[Loaded]]] = {}
        self._calls = OpenCalls(self._fail_start)
        self._questions = itertools.count(1)

    @property
    def pid(self) -> int | None:
        """Of the engine process, while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def kv_bytes(self) -> int:
        """Of the cache's arena."""
        return int(self._options.get("kv_bytes", DEFAULT_KV_BYTES))

    @property
    def models(self) -> Mapping[str, Loaded]:
        """What is resident, by name; while the process is restarting, what it will hold again."""
        return MappingProxyType(self._models)

    # -- the process's life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Return when the process is up (state READY, no models). Wrong options raise `InvalidRequestError`.

        A first start that fails is not tried again.
        """
        if self._supervisor is not None:
            raise InvalidRequestError("the engine client was started already")
        self._supervisor = asyncio.create_task(self._supervise(), name="antiphon-engine-supervisor")
        try:
            await self._until_ready()
        except EngineError:
            raise self._start_error or EngineError(f"the engine process did not start: {self.cause}") from None

    async def wait_for_change(self) -> None:
        """Return when `state` is next set."""
        await self._changed.wait()

    def _set(self, state: EngineState, cause: str | None) -> None:
        if self.state is EngineState.CLOSED:
            return
        self.state, self.cause = state, cause
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _fail_start(self, error: AntiphonError) -> None:
        self._start_error = error

    def _not_ready(self) -> EngineError:
        return EngineError(f"the engine is {self.state}: {self.cause}")

    async def _until_ready(self) -> EngineProcess:
        """Wait out a start; raise if there is nothing to wait for."""
        while self.state in (EngineState.STARTING, EngineState.RESTARTING):
            await self._changed.wait()
        return self._ready_process()

    def _ready_process(self) -> EngineProcess:
        if self.state is not EngineState.READY or self._process is None:
            raise self._not_ready()
        return self._process

    async def _supervise(self) -> None:
        deaths = 0
        while True:
            began = time.monotonic()
            cause = await self._live()
            if self.state is EngineState.CLOSED:
                return
            was_starting = self.state is EngineState.STARTING
            deaths = deaths + 1 if time.monotonic() - began < STABLE_SECONDS else 1
            gave_up = was_starting or self._start_error is not None or deaths > self._max_restarts
            many = f" ({deaths} times in a row)" if deaths > 1 else ""
            self._set(EngineState.FAILED if gave_up else EngineState.RESTARTING, f"{cause}{many}")
            self._calls.fail(f"the engine process died: {cause}")
            logger.error("the engine process died: %s%s", cause, "" if gave_up else "; restarting it")
            if gave_up:
                self._models.clear()
                self._references.clear()
                return
            if deaths > 1:
                await asyncio.sleep(min(FIRST_BACK_OFF * 2 ** (deaths - 2), LONGEST_BACK_OFF))
            self.restarts += 1

    async def _live(self) -> str:
        """One life of the process, from its start to its end; returns the cause of its end."""
        try:
            process = EngineProcess(self._options, min(1.0, self._watchdog_seconds / 4), self._calls.take)
        except Exception as error:
            return f"it cannot be started: {type(error).__name__}: {error}"
        self._process = process
        tasks = [asyncio.create_task(self._prepare(process)), asyncio.create_task(self._watch(process))]
        try:
            status = await process.exited
            return str(self._start_error) if self._start_error is not None else process.cause(status)
        finally:
            for task in tasks:
                task.cancel()
            self._process = None
            process.close()

    async def _prepare(self, process: EngineProcess) -> None:
        """Load the models that were there before the last death, then be ready."""
        await process.started
        names = list(self._references)
        results = await asyncio.gather(
            *(self._load_into(process, name, self._references[name]) for name in names), return_exceptions=True
        )
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                logger.error("model %r failed to load after the restart: %s", name, result)
                self._models.pop(name, None)
                self._references.pop(name, None)
            else:
                self._models[name] = result
        self._set(EngineState.READY, None)

    async def _watch(self, process: EngineProcess) -> None:
        """Kill a process whose step takes too long, or that gives no sign of life.

        Silence is counted in looks, not by the clock: a machine that slept has been silent too.
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
        """End the process: streams still open raise `EngineError`; after `grace` seconds it is killed."""
        self._set(EngineState.CLOSED, "the engine was closed")
        self._calls.fail("the engine was closed")
        self._models.clear()
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

    # -- models -------------------------------------------------------------------------------------------------

    async def load(self, name: str, reference: str) -> Loaded:
        """Make a model resident under `name`; returns at once if it is. Concurrent loads of one name share the work.

        Raises the `AntiphonError` of the failure. Waits while the process is starting or restarting.
        """
        if name in self._models and name not in self._loads:
            self._check_reference(name, self._references[name], reference)
            if self.state is EngineState.READY:
                return self._models[name]
        if name in self._loads:
            under_way, task = self._loads[name]
            self._check_reference(name, under_way, reference)
        else:
            task = asyncio.create_task(self._load(name, reference))
            self._loads[name] = (reference, task)
            task.add_done_callback(lambda done: self._loaded(name, done))
        return await asyncio.shield(task)

    def _check_reference(self, name: str, known: str, asked: str) -> None:
        if known != asked:
            raise InvalidRequestError(f"model {name!r} is {known!r} already; unload it before loading {asked!r}")

    def _loaded(self, name: str, done: asyncio.Task[Loaded]) -> None:
        self._loads.pop(name, None)
        if not done.cancelled():
            done.exception()  # whoever waited was told; if nobody did, nobody minds

    async def _load(self, name: str, reference: str) -> Loaded:
        process = await self._until_ready()
        while (going := self._calls.asked(("unload", name))) is not None:
            await asyncio.wait([going])
            await asyncio.sleep(0)
        if name in self._models:  # it came back with the restart that was waited for
            return self._models[name]
        loaded = await self._load_into(process, name, reference)
        self._models[name] = loaded
        self._references[name] = reference
        return loaded

    async def _load_into(self, process: EngineProcess, name: str, reference: str) -> Loaded:
        answer: Loaded = await self._calls.ask(process, ("load", name), Load(name, reference, self._offline))
        return answer

    async def unload(self, name: str) -> None:
        """End the model's requests (finish reason "cancelled") and give its memory back."""
        process = await self._until_ready()
        if name not in self._models:
            raise ModelNotFoundError(f"model {name!r} is not loaded; loaded: {', '.join(self._models) or 'none'}")
        del self._models[name], self._references[name]
        asked = asyncio.ensure_future(self._calls.ask(process, ("unload", name), Unload(name)))
        with contextlib.suppress(EngineError):  # the process died: the memory is free
            await asyncio.shield(asked)

    # -- requests -----------------------------------------------------------------------------------------------
    # Each raises `EngineError` at once if the engine is not READY.

    def generate(self, call: Generate) -> GenerateStream:
        """Hand a request in."""
        return self._calls.generate(self._ready_process(), call)

    async def embed(self, call: Embed) -> Embedded:
        """Cancelling the wait aborts the work."""
        return await self._calls.embed(self._ready_process(), call)

    def transcribe(self, call: Transcribe | Listen) -> TranscribeStream:
        """Hand a recording in, or open a live session."""
        return self._calls.transcribe(self._ready_process(), call)

    def speak(self, call: Speak) -> SpeakStream:
        """Have a text spoken."""
        return self._calls.speak(self._ready_process(), call)

    async def figures(self) -> dict[str, Any]:
        """What `EngineBase.figures` tells (per model: running, waiting, blocks_…; "arena"), and "process": "pid",
        "resident_bytes", "steps". `EngineError` if the engine is not READY. Answered between two steps."""
        process = self._ready_process()
        question = f"figures-{next(self._questions)}"
        answer: Figures = await self._calls.ask(process, ("figures", question), AskFigures(question))
        return answer.values
