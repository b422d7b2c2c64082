"""`Engine`: models in one process, one scheduler, one memory budget, for callers with threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from antiphon.engine.core import EngineCore
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.telemetry import SpeechRecord, TranscriptRecord
from antiphon.errors import EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.models.model import Task
from antiphon.runtime.config import EngineConfig
from antiphon.runtime.loading import LoadedModel, load_model
from antiphon.runtime.loop import EngineLoop
from antiphon.runtime.profile import Profile
from antiphon.runtime.pronunciation import Pronunciation
from antiphon.runtime.requests import Prompt, RequestFactory
from antiphon.runtime.resident import check_batch_invariance, make_slots, slot_names
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.speaking import Speaking
from antiphon.runtime.speech_text import Speaker
from antiphon.runtime.streams import Completion, Stream
from antiphon.runtime.synthesis import SpeechPort
from antiphon.runtime.transcribing import Transcribing
from antiphon.runtime.transcription import EnginePort, Transcriber
from antiphon.text.grammar_spec import GrammarSpec
from antiphon.weights.catalog.model_tasks import TASK_NAMES, models_for, wrong_task


class EngineBase:
    """What the threaded and the asynchronous engine share: the loop, the arena, the resident models."""

    def __init__(
        self,
        *models: str | LoadedModel,
        config: EngineConfig | None = None,
        offline: bool = False,
        after_step: Callable[[], None] | None = None,
        **options: Any,
    ) -> None:
        if config is not None and options:
            raise InvalidRequestError(f"give a config or single options, not both: {', '.join(options)}")
        try:
            self.config = config or EngineConfig(**options)
        except TypeError as error:
            raise InvalidRequestError(str(error).replace("EngineConfig.__init__() ", "")) from None
        if self.config.batch_invariant:
            check_batch_invariance()
        self._arena = Arena.allocate(self.config)
        self._core = EngineCore(record_requests=self.config.record_requests)
        self._factories: dict[str, RequestFactory] = {}
        self._transcribers: dict[str, Transcriber] = {}
        self._pronunciation: Pronunciation | None = None
        self._loop = EngineLoop(self._core, after_step)
        self._offline = offline
        self._profile: Profile | None = None
        try:
            for model in models:
                self.load(model)
        except BaseException:
            self.close()
            raise

    # -- models -------------------------------------------------------------------------------------------------

    def load(self, model: str | LoadedModel) -> LoadedModel:
        """Load a model by catalog name, path or hub reference, or add one that is loaded already.

        Returns once it can be used. Raises `InvalidRequestError` if a model of that name is loaded.
        """
        if isinstance(model, str):
            loaded = load_model(model, offline=self._offline, options=self.config.weight_options())
        else:
            loaded = model
        if loaded.name in self._factories:
            raise InvalidRequestError(f"model {loaded.name!r} is resident already")
        slots = make_slots(loaded, self._arena, self.config)

        def add() -> None:
            for slot in slots:
                self._core.add_model(slot)

        self._loop.call(add).result()
        self._factories[loaded.name] = RequestFactory(loaded)
        return loaded

    def unload(self, name: str) -> None:
        """Cancel the model's requests and free the memory of its weights and its cache."""
        slots = slot_names(name, self._factory(name).loaded.model)

        def remove() -> None:
            for slot in slots:
                self._core.remove_model(slot)
            self._arena.release_free_pages()

        self._loop.call(remove).result()
        del self._factories[name]
        self._transcribers.pop(name, None)

    @property
    def models(self) -> list[str]:
        """The names of the loaded models, in the order in which they were loaded."""
        return list(self._factories)

    def _factory(self, name: str | None, task: Task | None = None) -> RequestFactory:
        """The model of that name, which must be for the task; without a name, the only loaded one that is."""
        if name is not None:
            if name not in self._factories:
                raise ModelNotFoundError(
                    f"model {name!r} is not loaded; loaded: {', '.join(self._factories) or 'none'}"
                )
            candidates = [self._factories[name]]
        else:
            candidates = list(self._factories.values())
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

    def _make(self, prompt: Prompt, params: SamplingParams, model: str | None, **details: Any) -> list[Request]:
        factory = self._factory(model, Task.GENERATE)
        seconds = details.pop("timeout", None)
        deadline = None if seconds is None else self._core.clock() + seconds
        return factory.make(prompt, params, deadline=deadline, **details)

    def _transcriber(self, model: str | None) -> Transcriber:
        """What transcribes with the named model, or with the only resident one that can."""
        loaded = self._factory(model, Task.TRANSCRIBE).loaded
        known = self._transcribers.get(loaded.name)
        if known is None or known.recogniser.loaded is not loaded:
            port = EnginePort(self._loop.add, self._loop.abort, self._core.clock, self._record_transcript)
            known = self._transcribers[loaded.name] = Transcriber(loaded, port)
        return known

    def _record_transcript(self, record: TranscriptRecord) -> None:
        self._loop.call(lambda: self._core.telemetry.add_transcript(record))

    def _speaker(self, model: str | None) -> tuple[Speaker, SpeechPort]:
        """What speaks with the named model, or with the only resident one that can."""
        loaded = self._factory(model, Task.SYNTHESIZE).loaded
        if self._pronunciation is None:
            self._pronunciation = Pronunciation.from_catalog(offline=self._offline)
        port = SpeechPort(
            self._loop.add, self._loop.abort, self._core.clock, self._record_speech, self.config.batch_invariant
        )
        return Speaker(loaded, self._pronunciation), port

    def _record_speech(self, record: SpeechRecord) -> None:
        self._loop.call(lambda: self._core.telemetry.add_speech(record))

    def _embedding_requests(self, texts: Sequence[str], model: str | None) -> list[Request]:
        factory = self._factory(model, Task.EMBED)
        return [factory.make_embedding(text) for text in texts]

    def sampling_defaults(self, model: str | None = None, **given: Any) -> SamplingParams:
        """How the model's own files ask to be sampled, else temperature 0.7 and top_p 0.95; `given` fields come first.

        `antiphon run`, `antiphon chat` and the server sample like this. `SamplingParams()` itself is greedy.
        """
        return self._factory(model, Task.GENERATE).loaded.sampling.params(**given)

    # -- figures ------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, dict[str, int]]:
        """Numbers for each model: requests running and waiting, cache blocks free, cached and owned, bytes owned.

        The entry `arena` has the bytes of the whole cache and how many of them models hold.
        """

        def read() -> dict[str, dict[str, int]]:
            names = ("running", "waiting", "blocks_free", "blocks_cached", "blocks_owned")
            figures = {
                name: dict(zip(names, slot.scheduler.figures(), strict=True)) for name, slot in self._core.slots.items()
            }
            for name, slot in self._core.slots.items():
                kv = getattr(slot.scheduler, "kv", None)  # one-shot requests have none
                figures[name]["bytes_owned"] = 0 if kv is None else kv.usage().owned_bytes
            books = self._arena.books
            figures["arena"] = {"total_bytes": books.total_bytes, "lent_bytes": books.lent_bytes}
            return figures

        return self._loop.call(read).result()

    def write_trace(self, path: str | Path) -> None:
        """Write the recent steps and requests as a trace that Perfetto and chrome://tracing open."""
        self._loop.call(lambda: self._core.telemetry.write_trace(Path(path))).result()

    def start_profile(self) -> None:
        """Time every instruction from now on. The machine's own limits are measured first, for comparison."""
        self._profile = self._loop.call(lambda: Profile(self._core)).result()

    def profile_lines(self) -> list[str]:
        """Where the time went since `start_profile`, as lines of a readable table."""
        if self._profile is None:
            raise InvalidRequestError("no profile was started")
        return self._loop.call(self._profile.lines).result()

    def close(self) -> None:
        """Cancel all requests and free all memory. The engine cannot be used afterwards."""
        self._loop.close()
        self._factories.clear()


class Engine(EngineBase, Transcribing, Speaking):
    """Models in this process, for any number of threads.

    `Engine("smollm2-135m", "whisper-base.en", kv_bytes=1 << 30)` loads models by catalog name, path or hub reference.
    Keyword arguments are the fields of `EngineConfig`, or pass `config`. With `offline` nothing is downloaded.
    Requests of all threads are computed together. Use it as a context manager, or call `close`.

    A prompt is a text, a list of chat messages (`{"role": ..., "content": ...}`) or a list of token ids. `model` is
    needed only where several loaded models fit the call.
    """

    def stream(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> Stream:
        """Generate one answer and return it as a stream of text.

        Errors in the request (a prompt that is too long, a bad grammar) and overload are raised here. `timeout` is in
        seconds, for the whole request. Requests with different `cache_salt` never share cached prefixes.
        """
        options = dict(model=model, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        return self.stream_samples(prompt, params, n=1, **options)[0]  # type: ignore[arg-type]

    def stream_samples(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        n: int,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> list[Stream]:
        """Generate `n` samples of one prompt, each as a stream. They share the prompt in memory."""
        details = dict(n=n, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        return self._submit([self._make(prompt, params or SamplingParams(), model, **details)])

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        n: int = 1,
        model: str | None = None,
        priority: Priority = Priority.NORMAL,
        timeout: float | None = None,
        grammar: GrammarSpec | None = None,
        cache_salt: str = "",
    ) -> list[Completion]:
        """Generate whole answers: `n` for each prompt, in the order of the prompts.

        Prompts are computed together. `params` is one for all of them, or one for each.
        """
        several = _several(prompts)
        each = _params_for(several, params)
        details = dict(n=n, priority=priority, timeout=timeout, grammar=grammar, cache_salt=cache_salt)
        made = [self._make(prompt, own, model, **details) for prompt, own in zip(several, each, strict=True)]
        return [stream.wait() for stream in self._submit(made)]

    def _submit(self, groups: Sequence[list[Request]]) -> list[Stream]:
        requests = [request for group in groups for request in group]
        streams = []
        for request in requests:
            stream = Stream(self._loop.abort)
            stream.attach(self._factories[request.model].loaded.tokenizer, request)
            streams.append(stream)
        self._loop.add(requests).result()
        return streams

    def embed(self, texts: str | Sequence[str], *, model: str | None = None) -> list[Tensor]:
        """Embed texts: one vector for each, in order."""
        requests = self._embedding_requests([texts] if isinstance(texts, str) else texts, model)
        done = threading.Semaphore(0)
        for request in requests:
            request.on_end = lambda _: done.release()
        self._loop.add(requests).result()
        for _ in requests:
            done.acquire()
        return [embedding_of(request) for request in requests]

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def embedding_of(request: Request) -> Tensor:
    """The result of an ended embedding request; raises the cause if it failed."""
    if request.finish_reason is not FinishReason.STOP:
        raise EngineError(f"request {request.id} ended by {request.finish_reason}: {request.error or 'no result'}")
    result: Tensor = request.result
    return result


def _several(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt or many: a list of strings, of id lists or of conversations is many."""
    if isinstance(prompts, str) or (prompts and not isinstance(prompts[0], str | Sequence)):
        return [prompts]  # type: ignore[list-item]
    return list(prompts)  # type: ignore[arg-type]


def _params_for(
    prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
) -> Sequence[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * len(prompts)
    if len(params) != len(prompts):
        raise InvalidRequestError(f"{len(prompts)} prompts were given with {len(params)} sets of params")
    return params
