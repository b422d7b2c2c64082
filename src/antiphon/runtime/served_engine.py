"""`ServedEngine`: the engine behind a socket. Commands come in as messages; what a step gives goes out as one."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import torch

from antiphon.engine.core import describe
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.models.model import Task
from antiphon.models.parts import TokenDecoder
from antiphon.runtime.engine import EngineBase
from antiphon.runtime.from_messages import abort_reason, grammar_spec, priority, sampling_params
from antiphon.runtime.loading import LoadedModel, load_model
from antiphon.runtime.messages import (
    Abort,
    Accepted,
    AppendText,
    AskFigures,
    Deltas,
    Embed,
    Embedded,
    Ended,
    EndText,
    Figures,
    Generate,
    Hear,
    Listen,
    Load,
    Loaded,
    LoadFailed,
    Refused,
    Speak,
    StopListening,
    TakePart,
    TextDelta,
    ToEngine,
    Transcribe,
    Unload,
    Unloaded,
    VoiceFields,
)
from antiphon.runtime.process_memory import read_pages, resident_bytes, return_memory
from antiphon.runtime.requests import encode_prompt
from antiphon.runtime.served_speech import ServedSpeech
from antiphon.runtime.served_transcription import ServedTranscriptions
from antiphon.runtime.streams import TextOutput

LOAD_THREADS = 4
GRAMMAR_THREADS = 4
SIDE_THREADS = 2


@dataclass(eq=False)
class _Group:
    """The requests of one command. Who submits it looks at `aborted` afterwards; who aborts it sets that first."""

    id: str
    requests: list[Request] = field(default_factory=list)
    unended: int = 0
    is_submitted: bool = False
    is_refused: bool = False
    aborted: FinishReason | None = None


class _Sample:
    """One sample on its way out: its text, and how much of it has been sent."""

    def __init__(self, engine: ServedEngine, group: _Group, loaded: LoadedModel, request: Request) -> None:
        self.group = group
        self.request = request
        self._engine = engine
        self._is_dirty = False
        self._num_sent = 0
        self.output = TextOutput(loaded.tokenizer, request, self._mark)

    def _mark(self) -> None:
        if not self._is_dirty:
            self._is_dirty = True
            self._engine.dirty.append(self)

    def take(self) -> TextDelta | None:
        """What has come since the last call. With log-probabilities, the end token is told as well, without text."""
        self._is_dirty = False
        delta, request = self.output.read(), self.request
        if request.params.logprobs is None:
            return None if delta is None else TextDelta(request.id, delta.text, delta.token_ids)
        first = self._num_sent
        ids = [] if delta is None else delta.token_ids
        if self.output.is_done and request.finish_reason is FinishReason.STOP:
            ids = request.output[first:]
        if delta is None and not ids:
            return None
        self._num_sent += len(ids)
        chosen = slice(first, self._num_sent)
        text = "" if delta is None else delta.text
        return TextDelta(request.id, text, ids, request.logprobs[chosen], request.top_logprobs[chosen])

    def ended(self) -> Ended:
        request, marks = self.request, self.request.marks
        assert request.finish_reason is not None
        parent = request.fork_of
        told = request if request.prompt_logprobs or parent is None else parent  # who computed the prompt
        return Ended(
            id=request.id,
            finish_reason=request.finish_reason.value,
            prompt_tokens=request.num_prompt_tokens,
            completion_tokens=request.num_output_tokens,
            cached_tokens=request.num_cached_tokens,
            error=request.error,
            queue=marks.queue_wait,
            time_to_first_token=marks.time_to_first_token,
            time_per_output_token=marks.time_per_output_token,
            total=marks.end_to_end,
            gaps=marks.inter_token_gaps,
            preemptions=marks.preemptions,
            prompt_logprobs=told.prompt_logprobs if request.params.prompt_logprobs else [],
            prompt_top_logprobs=told.prompt_top_logprobs if request.params.prompt_logprobs else [],
        )


class ServedEngine(EngineBase):
    """Takes commands in one thread and answers through `send`, which may be called from any.

    No command waits for a step, a load or a grammar: those are other threads' work.
    """

    def __init__(self, send: Callable[[msgspec.Struct], None], options: dict[str, Any]) -> None:
        self._send = send
        self.dirty: list[_Sample] = []
        self._groups: dict[str, _Group] = {}
        self._loading: set[str] = set()
        self._load_threads = ThreadPoolExecutor(LOAD_THREADS, "antiphon-load")
        self._grammar_threads = ThreadPoolExecutor(GRAMMAR_THREADS, "antiphon-grammar")
        self._side_threads = ThreadPoolExecutor(SIDE_THREADS, "antiphon-side")
        self._transcriptions = ServedTranscriptions(self._transcriber, send, _kind_and_message)
        self._speech = ServedSpeech(self._speaker, send, _kind_and_message)
        super().__init__(after_step=self._flush, **options)

    @property
    def steps(self) -> int:
        return self._core.telemetry.num_steps

    @property
    def busy_since(self) -> float | None:
        return self._loop.busy_since

    def take(self, command: ToEngine) -> None:
        """Act on a command, without waiting."""
        match command:
            case Generate():
                self._open(command)
            case Abort():
                self._abort(command)
            case Embed():
                self._open(command)
            case Load():
                self._load_threads.submit(self._load, command)
            case Unload():
                self._load_threads.submit(self._unload, command)
            case AskFigures():
                self._side_threads.submit(self._answer_figures, command)
            case Transcribe() | Listen() | Hear() | StopListening():
                self._transcriptions.take(command)
            case Speak() | AppendText() | EndText() | TakePart():
                self._speech.take(command)

    # -- models -------------------------------------------------------------------------------------------------

    def _load(self, command: Load) -> None:
        name = command.name
        self._offline = command.offline
        try:
            if name in self._loading or name in self._factories:
                raise InvalidRequestError(f"model {name!r} is resident already, or being loaded")
            self._loading.add(name)
            try:
                options = self.config.weight_options()
                loaded = load_model(command.reference, offline=command.offline, options=options)
                loaded = replace(loaded, name=name)
                read_weights(loaded)
                self.load(loaded)
            finally:
                self._loading.discard(name)
            self._send(self._description(loaded))
        except BaseException as error:
            self._send(LoadFailed(name, *_kind_and_message(error)))

    def _description(self, loaded: LoadedModel) -> Loaded:
        model = loaded.model
        limit = self.config.max_model_tokens if model.part(TokenDecoder) else None
        weights = {id(weight): weight.resident_bytes for weight in model.weights()}
        return Loaded(
            name=loaded.name,
            task=model.task.value,
            max_tokens=min(model.max_positions, limit or model.max_positions),
            weight_bytes=sum(weights.values()),
            seconds=loaded.report.seconds,
            forms=loaded.report.weights(),
            voices=[VoiceFields(v.name, v.language, v.gender) for v in loaded.voices.info()] if loaded.voices else [],
            default_voice=None if loaded.voices is None else loaded.voices.default,
        )

    def _unload(self, command: Unload) -> None:
        try:
            if command.name in self._factories:
                self.unload(command.name)
                return_memory()
        except BaseException:
            traceback.print_exc()
        self._send(Unloaded(command.name))

    # -- requests -----------------------------------------------------------------------------------------------

    def _open(self, command: Generate | Embed) -> None:
        group = _Group(command.id)
        if command.id in self._groups:
            self._send(Refused(command.id, "InvalidRequestError", f"request id {command.id!r} is in use"))
            return
        self._groups[command.id] = group
        if isinstance(command, Embed):
            self._side_threads.submit(self._submit, group, command)
        elif command.grammar is not None:
            self._grammar_threads.submit(self._submit, group, command)
        else:
            self._submit(group, command)

    def _submit(self, group: _Group, command: Generate | Embed) -> None:
        try:
            if isinstance(command, Generate):
                self._make_samples(group, command)
            else:
                self._make_embeddings(group, command)
        except BaseException as error:
            self._refuse(group, error)
            return
        group.unended = len(group.requests)
        added = self._loop.add(group.requests)
        added.add_done_callback(lambda done: self._taken(group, done, isinstance(command, Generate)))
        group.is_submitted = True
        if group.aborted is not None:
            self._end(group.requests, group.aborted)

    def _make_samples(self, group: _Group, command: Generate) -> None:
        loaded = self._factory(command.model).loaded
        params = sampling_params(command.params, loaded.model.vocab_size)
        group.requests = self._make(
            command.prompt,
            params,
            command.model,
            n=command.n,
            priority=priority(command.priority),
            timeout=command.timeout,
            grammar=None if command.grammar is None else grammar_spec(command.grammar),
            cache_salt=command.cache_salt,
        )
        for index, request in enumerate(group.requests):
            request.id = f"{group.id}/{index}"
            _Sample(self, group, loaded, request)

    def _make_embeddings(self, group: _Group, command: Embed) -> None:
        loaded = self._factory(command.model, Task.EMBED).loaded
        if not command.inputs:
            raise InvalidRequestError("there are no inputs to embed")
        urgency = priority(command.priority)
        for index, ids in enumerate(command.inputs):
            request = Request(
                id=f"{group.id}/{index}",
                model=loaded.name,
                prompt=encode_prompt(loaded, ids),
                params=SamplingParams(),
                task="embed",
                priority=urgency,
                on_end=lambda _: self._embedding_ended(group),
            )
            group.requests.append(request)

    def _taken(self, group: _Group, done: Future[None], is_generate: bool) -> None:
        """In the loop's thread, before the next step."""
        error = done.exception()
        if error is not None:
            group.is_refused = True
            self._refuse(group, error)
        elif is_generate:
            self._send(Accepted(group.id))

    def _refuse(self, group: _Group, error: BaseException) -> None:
        self._groups.pop(group.id, None)
        self._send(Refused(group.id, *_kind_and_message(error)))

    def _abort(self, command: Abort) -> None:
        reason = abort_reason(command.reason)
        group = self._groups.get(command.id)
        if group is None and (self._transcriptions.abort(command.id) or self._speech.abort(command.id)):
            return
        if group is None:
            self._loop.abort(command.id, reason)
            return
        group.aborted = reason
        if group.is_submitted:
            self._end(group.requests, reason)

    def _end(self, requests: Sequence[Request], reason: FinishReason) -> None:
        def end_all() -> None:
            for request in requests:
                self._core.abort(request.id, reason)

        self._loop.call(end_all)

    # -- what comes out, in the loop's thread -------------------------------------------------------------------

    def _flush(self) -> None:
        """After a step or a round of calls: all deltas in one message, then the ends."""
        if not self.dirty:
            return
        dirty, self.dirty = self.dirty, []
        if self._loop.failure is not None:
            return  # the process is about to say so for all
        items: list[TextDelta] = []
        done: list[_Sample] = []
        for sample in dirty:
            is_done = sample.output.is_done
            delta = sample.take()
            if sample.group.is_refused:
                continue
            if delta is not None:
                items.append(delta)
            if is_done:
                done.append(sample)
        if items:
            self._send(Deltas(items))
        for sample in done:
            self._send(sample.ended())
            sample.group.unended -= 1
            if not sample.group.unended:
                self._groups.pop(sample.group.id, None)

    def _embedding_ended(self, group: _Group) -> None:
        group.unended -= 1
        if group.unended or group.is_refused or self._groups.pop(group.id, None) is None:
            return
        requests = group.requests
        failed = next((request for request in requests if request.finish_reason is not FinishReason.STOP), None)
        if failed is not None:
            why = failed.error or f"it was {failed.finish_reason}"
            self._send(Refused(group.id, "EngineError", f"input {requests.index(failed)} was not embedded: {why}"))
            return
        rows = torch.stack([request.result for request in requests]).to(torch.float32).contiguous()
        num_tokens = sum(request.num_prompt_tokens for request in requests)
        self._send(Embedded(group.id, rows.numpy().tobytes(), rows.shape[1], num_tokens))

    # -- figures ------------------------------------------------------------------------------------------------

    def _answer_figures(self, command: AskFigures) -> None:
        try:
            values: dict[str, Any] = dict(self.figures())
            values["process"] = {"pid": os.getpid(), "resident_bytes": resident_bytes(), "steps": self.steps}
            self._send(Figures(command.id, values))
        except BaseException as error:
            self._send(Refused(command.id, *_kind_and_message(error)))


def read_weights(loaded: LoadedModel) -> None:
    """Have weights that are computed with as they lie in their files in memory before the first request."""
    with loaded.report.phase("read"):
        for weight in loaded.model.weights():
            for part in () if weight.packed else weight.parts:
                read_pages(part.data.data_ptr(), part.data.nbytes)


def _kind_and_message(error: BaseException) -> tuple[str, str]:
    """An error of ours as it is; anything else is our fault, and its trace goes to the log."""
    if isinstance(error, AntiphonError):
        return type(error).__name__, str(error)
    traceback.print_exception(error)
    return "EngineError", describe(error) if isinstance(error, Exception) else type(error).__name__
