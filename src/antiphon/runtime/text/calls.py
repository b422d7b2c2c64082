"""`GenerationCall` and `EmbeddingCall`: the requests of a prompt, or of some texts, from creation to end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

import numpy as np

from antiphon.engine.core import describe
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.calls.events import Accepted, Embeddings
from antiphon.runtime.calls.port import CallEngine, RequestLoop
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.text.output import SampleOutput
from antiphon.runtime.text.requests import Prompt
from antiphon.text.grammar_spec import GrammarSpec

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import EmbedInputs, Generate


class TextEngine(CallEngine, Protocol):
    """The part of a front end that calls of text use."""

    def samples(
        self,
        prompt: Prompt,
        params: SamplingParams,
        *,
        model: str | None,
        n: int,
        priority: int,
        timeout: float | None,
        grammar: GrammarSpec | None,
        cache_salt: str,
        call_id: str | None,
    ) -> list[SampleOutput]: ...

    def embedding_requests(
        self,
        call_id: str,
        texts: Sequence[str | Sequence[int]],
        model: str | None,
        priority: int,
        second_starts: Sequence[int] | None,
    ) -> list[Request]: ...


class RequestsCall:
    """Requests that are submitted together. `cancel` may come at any time, also while they are being created.

    `submit` looks for a cancellation after it has submitted the requests, and `cancel` stores the reason before it
    looks for submitted requests, so one of the two ends them.
    """

    def __init__(self, call_id: str, sink: Sink) -> None:
        self.id = call_id
        self.requests: list[Request] = []
        self._sink = sink
        self._loop: RequestLoop | None = None  # set when the requests are submitted
        self._cancelled: FinishReason | None = None

    def submit(self, loop: RequestLoop, on_done: Callable[[Future[None]], None] | None = None) -> Future[None]:
        """Submit the requests; the future raises the error that rejected them.

        `on_done` is called before the next step.
        """
        added = loop.add(self.requests, on_done)
        self._loop = loop
        if self._cancelled is not None:
            self.cancel(self._cancelled)
        return added

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._cancelled = reason
        if self._loop is not None:
            self._loop.abort_all([request.id for request in self.requests], reason)

    def _submitted(self, done: Future[None]) -> None:
        """Report the outcome of `submit`; runs in the loop's thread, before the next step."""
        error = done.exception()
        if error is not None:
            self._rejected()
            if not isinstance(error, AntiphonError):
                traceback.print_exception(error)  # a defect: the client receives only its text
                error = EngineError(describe(error))
            self._sink.put(self.id, error)
        else:
            self._accepted()

    def _accepted(self) -> None:
        """Override to act when the engine has accepted all requests."""

    def _rejected(self) -> None:
        """Override to act when the engine has rejected a request."""


class GenerationCall(RequestsCall):
    """Samples of one prompt. Each emits `TextDelta`s and `Ended` under its own id, after the steps that made them."""

    id_prefix = "request"

    def begin(self, engine: TextEngine, request: Generate) -> None:
        self._outputs = engine.samples(
            request.prompt,
            request.params,
            model=request.model,
            n=request.n,
            priority=request.priority,
            timeout=request.timeout,
            grammar=request.grammar,
            cache_salt=request.cache_salt,
            call_id=self.id,
        )
        self.requests = [output.request for output in self._outputs]
        self.submit(engine.port.loop, self._submitted)

    def _accepted(self) -> None:
        self._sink.put(self.id, Accepted())

    def _rejected(self) -> None:
        """Emit nothing for requests that were accepted before another one was rejected."""
        for output in self._outputs:
            output.is_rejected = True


class EmbeddingCall(RequestsCall):
    """Texts to embed. Emits `Embeddings`, or an error, when the last request has ended."""

    id_prefix = "embedding"

    def begin(self, engine: TextEngine, request: EmbedInputs) -> None:
        if not request.inputs:
            raise InvalidRequestError("there are no inputs to embed")
        starts = request.second_starts
        self.attach(engine.embedding_requests(self.id, request.inputs, request.model, request.priority, starts))
        self.submit(engine.port.loop, self._submitted)

    def attach(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self._num_unended = len(requests)
        for request in requests:
            request.on_end = self._one_ended

    def _one_ended(self, _: Request) -> None:
        self._num_unended -= 1
        if self._num_unended:  # always nonzero if the engine rejected a request
            return
        for index, request in enumerate(self.requests):
            if request.finish_reason is not FinishReason.STOP:
                why = request.error or f"it was {request.finish_reason}"
                self._sink.put(self.id, EngineError(f"input {index} was not embedded: {why}"))
                return
        num_tokens = sum(request.num_prompt_tokens for request in self.requests)
        vectors = np.stack([request.result.float().numpy() for request in self.requests])
        self._sink.put(self.id, Embeddings(vectors, num_tokens))


class SampleControl:
    """Control of one sample of a call, for its own reader."""

    def __init__(self, request: Request, loop: RequestLoop) -> None:
        self.id = request.id
        self._loop = loop

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._loop.abort_all([self.id], reason)
