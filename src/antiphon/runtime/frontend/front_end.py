"""`FrontEnd`: models, calls and figures of one engine, for every kind of caller."""

from __future__ import annotations

import difflib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from antiphon.argument_types import check_type
from antiphon.device_names import AUTO
from antiphon.engine.core import EngineCore
from antiphon.engine.model_slot import ModelSlot
from antiphon.engine.request import Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.modes import Speculation
from antiphon.engine.telemetry import SpeechRecord, StepRecord, TranscriptRecord
from antiphon.errors import DeviceError, EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.models.base.model import Task
from antiphon.models.base.parts import Detector, VocabularyKind
from antiphon.ops import Device
from antiphon.ops.program.profile import MachineLimits
from antiphon.runtime.calls.control import new_id
from antiphon.runtime.calls.events import Event
from antiphon.runtime.calls.port import EnginePort
from antiphon.runtime.calls.sinks import Sink, ThreadSink
from antiphon.runtime.calls.task_call import TaskCall
from antiphon.runtime.frontend.adapters import AdapterSlots
from antiphon.runtime.frontend.arguments import (
    LOADED_NAME,
    MODEL_FILES,
    PATH,
    ParamSets,
    check_arguments,
    check_option_names,
    from_options,
    params_for,
)
from antiphon.runtime.frontend.draft_models import DraftModels
from antiphon.runtime.frontend.lane import DetectorLane
from antiphon.runtime.frontend.loop import CLOSED, EngineLoop, slot_figures
from antiphon.runtime.frontend.profile import ModelProfile, Profile
from antiphon.runtime.loading.adapter_names import SEPARATOR
from antiphon.runtime.loading.adapters import LoadedAdapter
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.loading import LoadedModel, load_model
from antiphon.runtime.loading.process_memory import drop_locals
from antiphon.runtime.slots.devices import EngineDevices
from antiphon.runtime.slots.resident import check_batch_invariance, make_slots, slot_names
from antiphon.runtime.speech.pronunciation import Pronunciation
from antiphon.runtime.speech.text import Speaker
from antiphon.runtime.text.output import SampleOutput
from antiphon.runtime.text.requests import Prompt, RequestFactory
from antiphon.runtime.transcription.transcriber import Transcriber
from antiphon.text.grammar_spec import Grammar, as_grammar
from antiphon.text.tokenization.tokenizer import Tokenizer
from antiphon.weights.catalog.model_tasks import TASK_NAMES, models_for, wrong_task

Call = TypeVar("Call", bound=TaskCall)


class FrontEnd:
    """Engine loop, devices and resident models of an engine. Its calls emit events to `sink`."""

    def __init__(
        self,
        sink: Sink,
        *models: str | Path | LoadedModel,
        config: EngineConfig | None = None,
        offline: bool = False,
        adapters: Mapping[str, str | Path] | None = None,
        **options: Any,
    ) -> None:
        check_arguments(config=config, adapters=adapters, offline=offline)
        for model in models:
            check_type("a model", model, MODEL_FILES)
        if config is not None and options:
            raise InvalidRequestError(f"give a config or single options, not both: {', '.join(options)}")
        self.config = config or from_options(EngineConfig, options)
        self._sink = sink
        self._is_closed = False
        self._devices = EngineDevices(self.config)
        if self.config.batch_invariant:
            check_batch_invariance(self._devices.default.device)
        self._core = EngineCore(record_requests=self.config.record_requests)
        self._factories: dict[str, RequestFactory] = {}
        self._transcribers: dict[str, Transcriber] = {}
        self._pronunciation: Pronunciation | None = None
        self._outputs: list[SampleOutput] = []  # outputs with new tokens
        self._calls: weakref.WeakSet[TaskCall] = weakref.WeakSet()
        self._loop = EngineLoop(self._core, self._flush)
        #: Detectors that calls use, such as voice activity.
        self.detectors = DetectorLane(self._load_files, self._make_slots)
        self._adapters = AdapterSlots(self._loop, self._core)
        self.port = EnginePort(self._loop, self._core.clock, self._record, self.detectors, self.config.batch_invariant)
        self._offline = offline
        self._drafts = DraftModels(self.config, self._load_files)
        self._profile: Profile | None = None
        try:
            for model in models:
                self.load(model)
            for name, path in (adapters or {}).items():
                base, _, own = name.rpartition(SEPARATOR)
                self.load_adapter(path, own, model=base or None)
        except BaseException:
            self.close()
            raise

    # -- models -------------------------------------------------------------------------------------------------

    def load(self, model: str | Path | LoadedModel, device: str | None = None) -> LoadedModel:
        """Load a model by catalog name, path or hub reference, or add a loaded model. Return once it is usable.

        `device` is where it computes: `cpu`, `cuda`, `cuda:N`, or the engine's own device if omitted. Detectors are
        always on the CPU; a GPU for a detector is an `UnsupportedError`. Raises `InvalidRequestError` if a model of
        that name is loaded. A detector that a call has loaded is not loaded again.
        """
        self._check(device=device)
        check_type("model", model, MODEL_FILES)
        if isinstance(model, LoadedModel):
            loaded = model
        else:
            loaded = self.detectors.loaded(str(model)) or self._load_files(str(model), device)
        if loaded.name in self._factories:
            raise InvalidRequestError(f"model {loaded.name!r} is resident already")
        if loaded.model.part(Detector) is not None:
            given = loaded
            loaded = self.detectors.add(given.name, lambda: given)
            self._factories[loaded.name] = RequestFactory(loaded)
        else:
            draft = self._drafts.model_for(loaded)
            slots = self._make_slots(loaded, draft)

            def add() -> None:
                for slot in slots:
                    self._core.add_model(slot)

            self._loop.call(add).result()
            own = self.config.speculation
            speculation = Speculation.NGRAM if own is Speculation.DRAFT and draft is None else own
            self._factories[loaded.name] = RequestFactory(
                loaded, speculation=speculation, has_draft_model=draft is not None
            )
        return loaded

    def _load_files(self, reference: str, device: str | None = None) -> LoadedModel:
        chosen, options = self._devices.get(device).device, self.config.weight_options()
        may_move = device is None or device == AUTO
        with self._translated(chosen):
            return load_model(
                reference,
                offline=self._offline,
                options=options,
                device=chosen,
                may_move=may_move,
                batch_invariant=self.config.batch_invariant,
            )

    @contextmanager
    def _translated(self, device: Device) -> Iterator[None]:
        """Translate a load error into an AntiphonError and free its memory; end the loop if the device is lost."""
        try:
            yield
        except Exception as error:
            meant = device.translate(error)
            drop_locals(error)
            if isinstance(meant, DeviceError):
                self._loop.end(meant)
            else:
                self._devices.trim()
            if meant is error:
                raise
            raise meant from error

    def _make_slots(self, loaded: LoadedModel, draft: LoadedModel | None = None) -> list[ModelSlot]:
        device = self._devices.of(loaded.device)
        if self.config.batch_invariant:
            check_batch_invariance(device.device, loaded)
        with self._translated(loaded.device):
            arena = device.acquire(loaded.name, loaded.model, None if draft is None else draft.model)
            try:
                return make_slots(loaded, arena, self.config, draft)
            except BaseException:
                device.release(loaded.name)
                raise

    def load_adapter(self, path: str | Path, name: str | None = None, *, model: str | None = None) -> LoadedAdapter:
        """Load a LoRA adapter for a loaded model: a folder as PEFT saves it, or a GGUF file.

        Its requests name `model:name`; `name` defaults to the name of the file. Several adapters and the model itself
        are computed in one batch. `unload` unloads it by that name; unloading the model unloads its adapters.
        """
        self._check(model=model, name=name)
        check_type("path", path, PATH)
        factory = self._factory(model, Task.GENERATE)
        if factory.adapter >= 0:
            raise InvalidRequestError(f"{model!r} is an adapter; name the model that it belongs to")
        adapter, slot = self._adapters.load(factory.loaded, Path(path), name)
        self._factories[adapter.name] = replace(factory, adapter=slot, content=adapter.fitted.digest)
        return adapter

    def unload(self, name: str) -> None:
        """Cancel the requests of a model or an adapter and free its memory: its weights, and a model's cache."""
        self._check()
        check_type("name", name, LOADED_NAME)
        self._remove(name)
        self._devices.trim()

    def _remove(self, name: str) -> None:
        if name in self._adapters.loaded:
            del self._factories[name]
            self._adapters.unload(name)
            return
        if name in self.detectors:
            self.detectors.remove(name)
            self._factories.pop(name, None)
            return
        loaded = self._factory(name).loaded
        slots, device = slot_names(name, loaded.model), self._devices.of(loaded.device)
        for adapter in self._adapters.forget(name):
            del self._factories[adapter]

        def remove() -> None:
            for slot in slots:
                self._core.remove_model(slot)
            device.release(name)

        self._loop.call(remove).result()
        del self._factories[name]
        self._drafts.keep(factory.loaded.device.name for factory in self._factories.values() if factory.has_draft_model)
        self._transcribers.pop(name, None)

    @property
    def models(self) -> list[str]:
        """Names of the loaded models and adapters, in the order in which they were loaded."""
        return list(self._factories)

    def _factory(self, name: str | None, task: Task | None = None) -> RequestFactory:
        """Return the named model, which must be for the task; without a name, the only loaded model for the task."""
        if name is not None:
            if name not in self._factories:
                near = difflib.get_close_matches(name, self._factories, n=1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ModelNotFoundError(
                    f"model {name!r} is not loaded; loaded: {', '.join(self._factories) or 'none'}{hint}"
                )
            candidates = [self._factories[name]]
        else:
            candidates = [factory for factory in self._factories.values() if factory.adapter < 0]
        if not candidates:
            raise ModelNotFoundError("no model is loaded")
        fitting = [factory for factory in candidates if task is None or factory.loaded.model.task is task]
        if not fitting and task is not None:
            if len(candidates) == 1:
                loaded = candidates[0].loaded
                raise wrong_task(loaded.name, loaded.model.task, task)
            raise ModelNotFoundError(
                f"none of the loaded models is for {TASK_NAMES[task]}: {', '.join(self._factories)}; "
                f"load one of: {', '.join(models_for(task))}"
            )
        if len(fitting) > 1:
            names = ", ".join(factory.loaded.name for factory in fitting)
            raise ModelNotFoundError(f"{len(fitting)} loaded models fit; name one of: {names}")
        return fitting[0]

    def transcriber(self, model: str | None) -> Transcriber:
        """Return the transcriber of the named model, or of the only resident transcription model."""
        loaded = self._factory(model, Task.TRANSCRIBE).loaded
        known = self._transcribers.get(loaded.name)
        if known is None or known.recogniser.loaded is not loaded:
            known = self._transcribers[loaded.name] = Transcriber(
                loaded, self.port, speculates=self.config.speculation is not Speculation.OFF
            )
        return known

    def speaker(self, model: str | None) -> Speaker:
        """Return the named speech model, or the only resident one, with its voices and its pronunciation of words."""
        loaded = self._factory(model, Task.SYNTHESIZE).loaded
        if self._pronunciation is None:
            self._pronunciation = Pronunciation.from_catalog(self.detectors, offline=self._offline)
        return Speaker(loaded, self._pronunciation)

    def _record(self, record: TranscriptRecord | SpeechRecord) -> None:
        telemetry = self._core.telemetry
        if isinstance(record, SpeechRecord):
            self._loop.call(lambda: telemetry.speeches.append(record))
        else:
            self._loop.call(lambda: telemetry.transcripts.append(record))

    def sampling_defaults(self, model: str | None = None, **given: Any) -> SamplingParams:
        """Return the sampling settings that the model's files state, else temperature 0.7 and top_p 0.95.

        `given` fields override both. `antiphon run`, `antiphon chat` and the server sample like this.
        `SamplingParams()` itself is greedy.
        """
        self._check(model=model)
        check_option_names(SamplingParams, given)
        return self._factory(model, Task.GENERATE).loaded.sampling.params(**given)

    def _tokenizer(self, model: str | None) -> Tokenizer:
        """Return the tokenizer of the named model, or of the only loaded one; its tokens must be those of text."""
        loaded = self._factory(model).loaded
        if loaded.model.vocabulary not in (VocabularyKind.TEXT, VocabularyKind.WHISPER):
            raise InvalidRequestError(
                f"model {loaded.name!r} is for {TASK_NAMES[loaded.model.task]}, not for text tokens"
            )
        return loaded.tokenizer

    # -- calls --------------------------------------------------------------------------------------------------

    def _check(self, **arguments: object) -> None:
        """Reject a call to a closed engine, then the first argument of a wrong type."""
        if self._is_closed:
            raise EngineError(CLOSED)
        check_arguments(**arguments)

    def _new_call(self, kind: type[Call], call_id: str | None = None) -> Call:
        """Create a call of this class, which is cancelled if it is still open when the engine is closed."""
        call = kind(call_id or new_id(kind.id_prefix), self._sink)
        self._calls.add(call)
        return call

    # -- text ---------------------------------------------------------------------------------------------------

    def samples(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        model: str | None = None,
        n: int = 1,
        priority: int = Priority.NORMAL,
        timeout: float | None = None,
        grammar: Grammar | None = None,
        cache_salt: str = "",
        call_id: str | None = None,
    ) -> list[SampleOutput]:
        """Return samples of a prompt, not yet submitted. With `call_id`, a sample's id is the call's with a number.

        Encoding the prompt and compiling the grammar can take long.
        """
        factory = self._factory(model, Task.GENERATE)
        requests = factory.make(
            prompt,
            params,
            n=n,
            priority=priority,
            deadline=None if timeout is None else self._core.clock() + timeout,
            grammar=as_grammar(grammar),
            cache_salt=cache_salt,
            call_id=call_id,
        )
        return [SampleOutput(factory.loaded.tokenizer, request, self._mark) for request in requests]

    def _samples_of_all(
        self, prompts: Sequence[Prompt], params: ParamSets, details: Mapping[str, Any]
    ) -> list[SampleOutput]:
        self._check(**details)
        pairs = zip(prompts, params_for(prompts, params), strict=True)
        return [output for prompt, own in pairs for output in self.samples(prompt, own, **details)]

    def embedding_requests(
        self,
        call_id: str,
        texts: Sequence[str | Sequence[int]],
        model: str | None,
        priority: int = Priority.NORMAL,
        second_starts: Sequence[int] | None = None,
    ) -> list[Request]:
        """Return embedding requests, not yet submitted; with `second_starts`, of pairs of texts for a cross-encoder."""
        factory = self._factory(model, Task.EMBED if second_starts is None else Task.SCORE)
        return factory.make_embeddings(texts, priority, call_id, second_starts)

    def _mark(self, output: SampleOutput) -> None:
        self._outputs.append(output)

    def _flush(self) -> None:
        """Emit the samples' new tokens, then their ends; for the loop's thread, after a step or a round of calls."""
        if not self._outputs:
            return
        outputs, self._outputs = self._outputs, []
        deltas: list[tuple[str, Event]] = []
        ends: list[tuple[str, Event]] = []
        for output in outputs:
            is_done = output.is_done
            delta = output.take()
            if output.is_rejected:
                continue
            if delta is not None:
                deltas.append((delta.id, delta))
            if is_done:
                ends.append((output.request.id, output.ended()))
        if deltas or ends:
            self._sink.put_step(deltas + ends)

    # -- figures ------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return figures by model: requests running and waiting, cache blocks free, cached and owned, bytes owned.

        The entry `devices` has, for each device, its memory in bytes, the free part of it (all of it on the CPU), and
        the bytes of its arena with those that models hold. The entry `arena` has the sums of the last two.
        """

        def read() -> dict[str, dict[str, Any]]:
            figures: dict[str, dict[str, Any]] = dict(slot_figures(self._core))
            devices = {device.name: device.figures() for device in self._devices}
            for name, slot in self._core.slots.items():
                figures[name]["arena_bytes"] = devices[slot.device]["total_bytes"]
            kinds = ("total_bytes", "lent_bytes")
            figures["arena"] = {kind: sum(device[kind] for device in devices.values()) for kind in kinds}
            figures["devices"] = devices
            return figures

        return self._loop.call(read).result() | self.detectors.figures()

    def write_trace(self, path: str | Path) -> None:
        """Write the recent steps and requests as a trace for Perfetto or chrome://tracing."""
        check_type("path", path, PATH)
        self._loop.call(lambda: self._core.telemetry.write_trace(Path(path))).result()

    def step_records(self) -> list[StepRecord]:
        """Return the recent steps, oldest first, with their times by the engine's clock (`time.perf_counter`)."""
        return self._loop.call(lambda: list(self._core.telemetry.steps)).result()

    def start_profile(self, limits: MachineLimits | None = None) -> None:
        """Start timing every instruction. The machine's limits, for comparison, are measured unless given."""
        check_arguments(limits=limits)
        self._profile = self._loop.call(lambda: Profile(self._core, limits)).result()

    def profiles(self) -> list[ModelProfile]:
        """Return the steps and the times of instructions since `start_profile`, by model."""
        return self._loop.call(self._started_profile().models).result()

    def profile_lines(self) -> list[str]:
        """Return the distribution of the time since `start_profile` as lines of a readable table."""
        return self._loop.call(self._started_profile().lines).result()

    def _started_profile(self) -> Profile:
        self._check()
        if self._profile is None:
            raise InvalidRequestError("no profile was started")
        return self._profile

    def close(self) -> None:
        """Cancel all requests and free all memory. The engine cannot be used afterwards."""
        if not self._is_closed and isinstance(self._sink, ThreadSink):  # a server has its own reason
            for call in list(self._calls):
                self._sink.put(call.id, EngineError(CLOSED))
        self._is_closed = True
        for call in list(self._calls):
            call.cancel()
        self.detectors.close()
        self._loop.close()
        self._factories.clear()
        self._devices.close()
