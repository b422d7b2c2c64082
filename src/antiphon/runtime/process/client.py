"""`EngineClient`: an engine in a process of its own, for asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from antiphon.errors import AntiphonError, EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import MAX_SAMPLES
from antiphon.runtime.calls.events import Embeddings
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.tasks import (
    DetectVoice,
    EmbedInputs,
    Generate,
    Hear,
    Listen,
    Speak,
    TaskRequest,
    Transcribe,
)
from antiphon.runtime.loading.memory_budget import DEFAULT_KV_BYTES
from antiphon.runtime.process import messages
from antiphon.runtime.process.channel import error_of, event_of
from antiphon.runtime.process.device_book import DeviceBook
from antiphon.runtime.process.engine_process import EngineProcess
from antiphon.runtime.process.questions import Questions
from antiphon.runtime.process.remote_call import RemoteCall
from antiphon.runtime.process.restart_policy import RestartPolicy
from antiphon.runtime.process.supervisor import EngineState, Supervisor
from antiphon.runtime.speech.stream import AsyncSynthesis
from antiphon.runtime.text.stream import GenerateStream
from antiphon.runtime.transcription.stream import AsyncTranscription, AsyncVoiceActivity
from antiphon.runtime.voice.hearing_stream import AsyncHearing

__all__ = ["EngineClient", "EngineState", "GenerateStream"]

Reader = TypeVar("Reader", bound=AsyncReader[Any])

logger = logging.getLogger("antiphon.engine")

#: Number of processes that may die while they reload a model before the model is given up.
MAX_RELOAD_DEATHS = 2


class EngineClient(Supervisor):
    """Client of an engine process, for one event loop. `options` are the fields of `EngineConfig`.

    When the process dies, by itself or by the watchdog, every open call fails; the process is started again and loads
    the models that it had. See `Supervisor`.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        restarts: RestartPolicy | None = None,
        watchdog_seconds: float = 120.0,
        offline: bool = False,
    ) -> None:
        super().__init__(options, restarts=restarts or RestartPolicy(), watchdog_seconds=watchdog_seconds)
        #: Callback with the name of a model that a restart failed to load again, and the error.
        self.on_lost: Callable[[str, AntiphonError], None] | None = None
        #: Callback with reports of the engine's activity, while it is watched.
        self.on_activity: Callable[[messages.Activity], None] | None = None
        self._offline = offline
        self._is_reloading = False  # stays True if the process dies while reloading
        self._reload_deaths: Counter[str] = Counter()
        self._models: dict[str, messages.Loaded] = {}
        self._references: dict[str, str] = {}
        self._bases: dict[str, str] = {}  # model of each adapter
        self._devices: dict[str, str | None] = {}  # requested device of each model
        self._loads: dict[str, tuple[str, asyncio.Task[messages.Loaded]]] = {}
        self._unloads: set[asyncio.Future[None]] = set()
        self.devices = DeviceBook()
        self._questions = Questions()
        self._sink = ThreadSink()
        self._numbers = itertools.count(1)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the arena on the CPU."""
        return int(self._options.get("kv_bytes") or self._options.get("cpu_kv_bytes") or DEFAULT_KV_BYTES)

    @property
    def models(self) -> Mapping[str, messages.Loaded]:
        """Resident models by name; during a restart, the models that will be loaded again."""
        return MappingProxyType(self._models)

    # -- messages -----------------------------------------------------------------------------------------------

    def _take(self, message: messages.FromEngine) -> None:
        answer = self._questions.answer
        match message:
            case messages.Deltas():
                self._sink.put_deltas(message.items)
            case messages.EventMessage():
                self._sink.put(message.id, event_of(message))
            case messages.Rejected():
                self._reject(message.id, error_of(message.kind, message.message))
            case messages.Loaded():
                answer(("load", message.name), message)
            case messages.LoadFailed():
                answer(("load", message.name), error_of(message.kind, message.message))
            case messages.Unloaded():
                answer(("unload", message.name), message)
            case messages.Devices():
                self.devices.take(message)
            case messages.Figures():
                answer(("figures", message.id), message)
            case messages.Activity():
                if self.on_activity is not None:
                    self.on_activity(message)

    def _reject(self, call_id: str, error: AntiphonError) -> None:
        if not call_id:
            self._start_error = error
        elif not self._questions.answer(("figures", call_id), error):
            self._sink.put(call_id, error)

    def _fail_calls(self, message: str) -> None:
        for call_id in self._sink.open_ids:
            self._sink.put(call_id, EngineError(message))
        self._questions.fail(message)

    def _gave_up(self) -> None:
        self._models.clear()
        self._references.clear()
        self._bases.clear()
        self._devices.clear()

    # -- models -------------------------------------------------------------------------------------------------

    async def load(self, name: str, reference: str, base: str = "", device: str | None = None) -> messages.Loaded:
        """Make a model resident under `name`; return at once if it is. Concurrent loads of one name share the work.

        With `base`, it is an adapter of that model, at the path `reference`; unloading the model unloads it too.
        Without `device`, it is loaded onto the engine's own; a restart uses the same device again. Waits while the
        process is starting or restarting. Raises the load's `AntiphonError`.
        """
        if name in self._models and name not in self._loads:
            self._check_reference(name, self._references[name], reference)
            if self.state is EngineState.READY:
                return self._models[name]
        if name in self._loads:
            under_way, task = self._loads[name]
            self._check_reference(name, under_way, reference)
        else:
            task = asyncio.create_task(self._load(name, reference, base, device))
            self._loads[name] = (reference, task)
            task.add_done_callback(lambda done: self._loaded(name, done))
        return await asyncio.shield(task)

    def _check_reference(self, name: str, known: str, asked: str) -> None:
        if known != asked:
            raise InvalidRequestError(f"model {name!r} is {known!r} already; unload it before loading {asked!r}")

    def _loaded(self, name: str, done: asyncio.Task[messages.Loaded]) -> None:
        if name in self._loads and self._loads[name][1] is done:
            del self._loads[name]
        if not done.cancelled():
            done.exception()  # retrieved, or asyncio would log it; callers that wait raise it

    def cancel_load(self, name: str) -> None:
        """Cancel a load that is under way or has just ended. A later load of this name waits for the cancellation."""
        _, task = self._loads.pop(name, ("", None))
        if task is not None:
            task.cancel()
        if name not in self._models and (task is None or task.done()):
            return
        self._drop_name(name)
        if self.state is EngineState.READY and self._process is not None:
            asked = asyncio.ensure_future(self._ask_to_unload(self._process, name))
            self._unloads.add(asked)
            asked.add_done_callback(self._unloads.discard)

    async def _load(self, name: str, reference: str, base: str, device: str | None) -> messages.Loaded:
        process = await self._until_ready()
        while (going := self._questions.pending(("unload", name))) is not None:
            await asyncio.wait([going])
            await asyncio.sleep(0)
        if name in self._models:  # reloaded by the restart that was waited for
            return self._models[name]
        loaded = await self._load_into(process, name, reference, base, device)
        self._models[name] = loaded
        self._references[name] = reference
        self._devices[name] = device
        if base:
            self._bases[name] = base
        return loaded

    async def _prepare(self, process: EngineProcess) -> None:
        """Load the models that the last process had, then their adapters.

        All are loaded at once, unless the last process died during such a reload: then they are loaded one by one, to
        identify the model that kills the process.
        """
        adapters = list(self._bases)
        models = [name for name in self._references if name not in self._bases]
        if not self._is_reloading:
            self._is_reloading = True
            for names in (models, adapters):
                await asyncio.gather(*(self._reload(process, name) for name in names if name in self._references))
        else:
            for name in (*sorted(models, key=self._reload_deaths.__getitem__), *adapters):
                if name in self._references:  # an adapter is lost with its model
                    await self._reload_alone(process, name)
        self._is_reloading = False
        self._reload_deaths.clear()

    async def _reload_alone(self, process: EngineProcess, name: str) -> None:
        self._reload_deaths[name] += 1  # decremented again if the process survives
        if self._reload_deaths[name] > MAX_RELOAD_DEATHS:
            self._lose(name, EngineError("the engine process died each time it loaded it"))
            return
        await self._reload(process, name)
        self._reload_deaths[name] -= 1

    async def _reload(self, process: EngineProcess, name: str) -> None:
        reference, base, device = self._references[name], self._bases.get(name, ""), self._devices.get(name)
        try:
            self._models[name] = await self._load_into(process, name, reference, base, device)
        except AntiphonError as error:
            if process.exited.done():  # the next process loads the model
                raise
            self._lose(name, error)

    def _lose(self, name: str, error: AntiphonError) -> None:
        logger.error("model %r failed to load after the restart: %s", name, error)
        lost = [name, *(adapter for adapter, base in self._bases.items() if base == name)]
        self._drop_name(name)
        if self.on_lost is not None:
            for model in lost:
                self.on_lost(model, error)

    def _drop_name(self, name: str) -> None:
        """Remove a model that is no longer resident, and its adapters."""
        for adapter in [adapter for adapter, base in self._bases.items() if base == name]:
            self._drop_name(adapter)
        self._models.pop(name, None)
        for names in (self._references, self._bases):
            names.pop(name, None)
        self._devices.pop(name, None)

    async def _load_into(
        self, process: EngineProcess, name: str, reference: str, base: str, device: str | None
    ) -> messages.Loaded:
        command = messages.LoadModel(name, reference, self._offline, base, device)
        answer: messages.Loaded = await self._questions.ask(process, ("load", name), command)
        return answer

    async def unload(self, name: str) -> None:
        """End the model's requests (finish reason "cancelled") and free its memory."""
        process = await self._until_ready()
        if name not in self._models:
            raise ModelNotFoundError(f"model {name!r} is not loaded; loaded: {', '.join(self._models) or 'none'}")
        self._drop_name(name)
        await asyncio.shield(asyncio.ensure_future(self._ask_to_unload(process, name)))

    async def _ask_to_unload(self, process: EngineProcess, name: str) -> None:
        with contextlib.suppress(EngineError):  # the process died, and its memory is free
            await self._questions.ask(process, ("unload", name), messages.UnloadModel(name))

    # -- calls --------------------------------------------------------------------------------------------------
    # Every call below raises `EngineError` at once if the engine is not READY.

    def generate(self, request: Generate) -> GenerateStream:
        """Generate samples of a prompt."""
        if not 1 <= request.n <= MAX_SAMPLES:
            raise InvalidRequestError(f"n is {request.n}; it must be 1 to {MAX_SAMPLES}")
        ids = [request.id, *(f"{request.id}/{index}" for index in range(request.n))]
        return self._open(request, lambda control, sink: GenerateStream(control, sink, request.n, ids))

    async def embed(self, request: EmbedInputs) -> Embeddings:
        """Embed token ids. Cancelling the wait cancels the work."""
        async with self._open(request, AsyncReader[Embeddings]) as reader:
            return await anext(reader)

    def transcribe(self, request: Transcribe | Listen) -> AsyncTranscription:
        """Transcribe a recording or a live session."""
        return self._open(request, AsyncTranscription)

    def detect_voice(self, request: DetectVoice) -> AsyncVoiceActivity:
        """Detect where speech begins and ends in pushed sound."""
        return self._open(request, AsyncVoiceActivity)

    def hear(self, request: Hear) -> AsyncHearing:
        """Detect turns of speech and transcribe them."""
        return self._open(request, AsyncHearing)

    def speak(self, request: Speak) -> AsyncSynthesis:
        """Speak a text."""
        return self._open(request, AsyncSynthesis)

    def _open(self, request: TaskRequest, reader_of: Callable[[Any, ThreadSink], Reader]) -> Reader:
        """Send a request and return its reader, which is registered first; close it if sending fails."""
        process = self._ready_process()
        reader = reader_of(RemoteCall(request, process.send), self._sink)
        try:
            process.send(request)
        except BaseException:
            reader.close()
            raise
        return reader

    async def figures(self) -> dict[str, Any]:
        """Return `FrontEnd.figures` with an entry "process": "pid", "resident_bytes" and "steps".

        The other entries are one per model (running, waiting, blocks_…), "arena" and "devices". The engine answers
        between two steps. Raises `EngineError` if the engine is not READY.
        """
        process = self._ready_process()
        question = f"figures-{next(self._numbers)}"
        command = messages.GetFigures(question)
        answer: messages.Figures = await self._questions.ask(process, ("figures", question), command)
        return answer.values

    def watch_activity(self, listener: str) -> None:
        """Pass a snapshot with the id `listener` to `on_activity`, then every change until the process ends.

        Raises `EngineError` if the engine is not READY.
        """
        self._ready_process().send(messages.WatchActivity(listener))

    def unwatch_activity(self) -> None:
        """Stop the reports, if there are any."""
        if self._process is not None:
            self._process.send(messages.UnwatchActivity())
