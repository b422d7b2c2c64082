"""`ServedEngine`: an engine behind a channel, which receives commands as messages and sends a message per step."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import msgspec

from antiphon.device_names import AUTO, CPU
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.runtime.activity.memory import MemoryReader
from antiphon.runtime.activity.reporter import ActivityReporter
from antiphon.runtime.calls.task_call import TaskCall
from antiphon.runtime.calls.tasks import TASKS, CallThreads, TaskRequest
from antiphon.runtime.frontend.front_end import FrontEnd
from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.process_memory import read_pages, resident_bytes, return_memory
from antiphon.runtime.process import messages
from antiphon.runtime.process.channel import ChannelSink, error_of, kind_and_message
from antiphon.runtime.process.load_threads import Load, LoadThreads

UNLOAD_THREADS = 4
CALL_THREADS = {
    CallThreads.GRAMMAR: 4,
    CallThreads.EMBEDDING: 2,
    CallThreads.RECORDING: 64,
    CallThreads.SESSION: 4,
}


class ServedEngine(FrontEnd):
    """Engine that receives commands in one thread and answers through `send`, which any thread may call.

    No command waits for a step, a load or a grammar, which run in other threads.
    """

    _sink: ChannelSink

    def __init__(self, send: Callable[[msgspec.Struct], None], options: dict[str, Any]) -> None:
        self._send = send
        self._loads = LoadThreads()
        self._unload_threads = ThreadPoolExecutor(UNLOAD_THREADS, "antiphon-unload")
        self._figure_threads = ThreadPoolExecutor(1, "antiphon-figures")
        self._call_threads = {
            kind: ThreadPoolExecutor(count, f"antiphon-{kind}") for kind, count in CALL_THREADS.items()
        }
        #: Implementations of the tasks, imported now because the first request would wait for the import.
        self._implementations: dict[type[TaskRequest], type[TaskCall]] = {
            task: resolve_name(task.implementation) for task in TASKS
        }
        super().__init__(ChannelSink(send), **options)
        memory = MemoryReader(self._devices, self._core, lambda: [own.loaded for own in list(self._factories.values())])
        self._activity = ActivityReporter(
            self._loop, self.detectors, memory.read, lambda id_, content: send(messages.Activity(id_, content))
        )
        # A server on the CPU opens no GPU, whose driver may be broken, until a model requests one.
        self._auto_device = CPU if self.config.device == CPU else Device.parse(AUTO).name
        self._report_devices()

    @property
    def steps(self) -> int:
        return self._core.telemetry.num_steps

    @property
    def busy_since(self) -> float | None:
        """`time.monotonic` at which the oldest current round of the models or the detectors began; None while idle."""
        begun = [since for since in (self._loop.busy_since, self.detectors.busy_since) if since is not None]
        return min(begun, default=None)

    def _flush(self) -> None:
        if self._outputs and self._loop.failure is None:  # a failed loop is reported to all calls at once
            super()._flush()

    def take(self, command: messages.ToEngine) -> None:
        """Execute a command without waiting."""
        if isinstance(command, TaskRequest):
            try:
                self._open(command)
            except InvalidRequestError as error:  # the id is in use
                self._send(messages.Rejected(command.id, *kind_and_message(error)))
        elif isinstance(command, messages.CallInput | messages.Abort):
            self._control(command)
        elif isinstance(command, messages.LoadModel):
            self._load(command)
        elif isinstance(command, messages.UnloadModel):
            self._loads.cancel(command.name)
            self._unload_threads.submit(self._unload, command)
        elif isinstance(command, messages.GetFigures):
            self._figure_threads.submit(self._answer_figures, command)
        elif isinstance(command, messages.WatchActivity):
            self._activity.watch(command.id)
        elif isinstance(command, messages.UnwatchActivity):
            self._activity.stop()

    def _control(self, message: messages.CallInput | messages.Abort) -> None:
        opened = self._sink.find(message.id)
        if opened is None:  # the call has sent its last event, or the id is one sample's
            if isinstance(message, messages.Abort):
                self._loop.abort_all([message.id], message.reason)
            return
        with suppress(AntiphonError):  # the call is ending
            if isinstance(message, messages.Abort):
                opened.call.cancel(message.reason)
            elif opened.request.accepts(message.method):
                _, *arguments = msgspec.structs.astuple(message)
                getattr(opened.call, message.method)(*arguments)

    def reject(self, data: bytes, error: Exception) -> None:
        """Answer a message that cannot be decoded, if it has an id or a name to answer to."""
        named: Any = None
        with suppress(Exception):
            named = msgspec.msgpack.decode(data)
        fields = named if isinstance(named, dict) else {}
        if not isinstance(error, AntiphonError):
            error = InvalidRequestError(f"the engine process cannot decode a message of {len(data)} bytes: {error}")
        if isinstance(fields.get("id"), str):
            opened = self._sink.find(fields["id"])
            if opened is not None:  # the intended input is lost, so the call cannot continue
                opened.call.cancel()
            self._send(messages.Rejected(fields["id"], *kind_and_message(error)))
        elif isinstance(fields.get("name"), str):
            self._send(messages.LoadFailed(fields["name"], *kind_and_message(error)))
        else:
            traceback.print_exception(error)

    # -- models -------------------------------------------------------------------------------------------------

    def _load(self, command: messages.LoadModel) -> None:
        self._offline = command.offline
        try:
            if command.name in self._factories:
                raise InvalidRequestError(f"model {command.name!r} is resident already")
            self._loads.start(command.name, lambda load: self._load_in_thread(command, load))
        except AntiphonError as error:
            self._send(messages.LoadFailed(command.name, *kind_and_message(error)))

    def _load_in_thread(self, command: messages.LoadModel, load: Load) -> None:
        """Load a model and answer the command; if the load was cancelled, discard the model instead."""
        name = command.name
        try:
            if command.base:
                answer = self._load_adapter(command)
            else:
                loaded = self.detectors.loaded(name) or self._load_weights(command)
                if load.is_cancelled:
                    return
                answer = self._description(self.load(loaded))
        except BaseException as error:
            if self._loads.end(load):
                self._send(messages.LoadFailed(name, *kind_and_message(error)))
            return
        if not self._loads.end(load):
            with suppress(AntiphonError):
                self.unload(name)
            return
        self._report_devices()
        self._send(answer)

    def _load_adapter(self, command: messages.LoadModel) -> messages.Loaded:
        own_name = command.name.removeprefix(f"{command.base}{SEPARATOR}")
        adapter = self.load_adapter(command.reference, own_name, model=command.base)
        base = self._description(self._factory(command.base).loaded)
        seconds = {"weights": adapter.seconds}
        return messages.Loaded(adapter.name, base.task, base.max_tokens, adapter.nbytes, seconds, device=base.device)

    def _load_weights(self, command: messages.LoadModel) -> LoadedModel:
        loaded = replace(self._load_files(command.reference, command.device), name=command.name)
        if command.device == AUTO:
            self._auto_device = Device.parse(AUTO).name
        read_weights(loaded)
        return loaded

    def _report_devices(self) -> None:
        items = [
            messages.DeviceMemory(
                device.name,
                device.device.limits.hardware,
                device.device.limits.total_bytes,
                device.budget_bytes,
                0 if device.books is None else device.books.total_bytes,
            )
            for device in self._devices
        ]
        self._send(messages.Devices(items, self._devices.default.name, self._auto_device))

    def _description(self, loaded: LoadedModel) -> messages.Loaded:
        model, voices = loaded.model, loaded.voices
        limit = self.config.max_model_tokens if model.part(TokenDecoder) else None
        return messages.Loaded(
            name=loaded.name,
            task=model.task.value,
            max_tokens=min(model.max_positions, limit or model.max_positions),
            weight_bytes=model.weight_bytes(),
            seconds=loaded.report.seconds,
            forms=loaded.report.weights(),
            voices=[messages.VoiceFields(v.name, v.language, v.gender) for v in voices.info()] if voices else [],
            default_voice=voices.default if voices else None,
            companions=list(model.companions),
            device=loaded.device.name,
        )

    def _unload(self, command: messages.UnloadModel) -> None:
        try:
            if command.name in self._factories or command.name in self.detectors:
                self.unload(command.name)
                return_memory()
                self._report_devices()
        except BaseException:
            traceback.print_exc()
        self._send(messages.Unloaded(command.name))

    # -- calls --------------------------------------------------------------------------------------------------

    def _open(self, request: TaskRequest) -> None:
        """Create the call, so that further commands reach it, and begin it in a thread that it does not block."""
        call = self._new_call(self._implementations[type(request)], request.id)
        self._sink.open(call, request)
        if request.begins_in is None:
            self._begin(call, request)
        else:
            self._call_threads[request.begins_in].submit(self._begin, call, request)

    def _begin(self, call: TaskCall, request: TaskRequest) -> None:
        try:
            call.begin(self, request)
        except BaseException as error:
            self._sink.put(call.id, error_of(*kind_and_message(error)))

    # -- figures ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        self._activity.stop()
        super().close()

    def _answer_figures(self, command: messages.GetFigures) -> None:
        try:
            values: dict[str, Any] = dict(self.figures())
            values["process"] = {"pid": os.getpid(), "resident_bytes": resident_bytes(), "steps": self.steps}
            self._send(messages.Figures(command.id, values))
        except BaseException as error:
            self._send(messages.Rejected(command.id, *kind_and_message(error)))


def read_weights(loaded: LoadedModel) -> None:
    """Read weights that are used directly from their files into memory before the first request."""
    with loaded.report.phase("read"):
        for weight in loaded.model.weights():
            for part in () if weight.packed else weight.parts:
                read_pages(part.data.data_ptr(), part.data.nbytes)
