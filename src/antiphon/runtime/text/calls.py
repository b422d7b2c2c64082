"""`GenerationCall` and `EmbeddingCall`: the requests of a prompt, or of some texts, from their making to their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from antiphon.engine.request import FinishReason, Request
from antiphon.errors import EngineError
from antiphon.runtime.calls.events import Embeddings
from antiphon.runtime.calls.port import RequestLoop
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.text.output import SampleOutput


class RequestsCall:
    """Requests that are handed in together. `cancel` may come at any time, also while they are still being made.

    `submit` looks for a cancellation after it has handed the requests in, and `cancel` notes it before it looks for
    requests, so one of the two ends them.
    """

    def __init__(self, call_id: str, loop: RequestLoop) -> None:
        self.id = call_id
        self.requests: list[Request] = []
        self._loop = loop
        self._is_submitted = False
        self._cancelled: FinishReason | None = None

    def submit(self, on_done: Callable[[Future[None]], None] | None = None) -> Future[None]:
        """Hand the requests in; the future raises the error that rejected them. `on_done`: before the next step."""
        added = self._loop.add(self.requests, on_done)
        self._is_submitted = True
        if self._cancelled is not None:
            self._end(self._cancelled)
        return added

    def reject(self) -> None:
        """The engine did not take all of the requests."""

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._cancelled = reason
        if self._is_submitted:
            self._end(reason)

    def _end(self, reason: FinishReason) -> None:
        self._loop.abort_all([request.id for request in self.requests], reason)


class GenerationCall(RequestsCall):
    """Samples of one prompt. Each emits `TextDelta`s and `Ended` under its own id, after the steps that made them."""

    def __init__(self, call_id: str, loop: RequestLoop) -> None:
        super().__init__(call_id, loop)
        self.outputs: list[SampleOutput] = []

    def attach(self, outputs: Sequence[SampleOutput]) -> None:
        """Take the samples, before they are submitted."""
        self.outputs = list(outputs)
        self.requests = [output.request for output in outputs]

    def reject(self) -> None:
        """Requests that the engine took, before it rejected another of the call, emit nothing."""
        for output in self.outputs:
            output.is_rejected = True


class EmbeddingCall(RequestsCall):
    """Texts to embed. Emits `Embeddings` or an error when the last has ended."""

    def __init__(self, call_id: str, loop: RequestLoop, sink: Sink) -> None:
        super().__init__(call_id, loop)
        self._sink = sink
        self._num_unended = 0

    def attach(self, requests: Sequence[Request]) -> None:
        self.requests = list(requests)
        self._num_unended = len(requests)
        for request in requests:
            request.on_end = self._one_ended

    def _one_ended(self, _: Request) -> None:
        self._num_unended -= 1
        if self._num_unended:  # always, if the engine did not take all of them
            return
        for index, request in enumerate(self.requests):
            if request.finish_reason is not FinishReason.STOP:
                why = request.error or f"it was {request.finish_reason}"
                self._sink.put(self.id, EngineError(f"input {index} was not embedded: {why}"))
                return
        num_tokens = sum(request.num_prompt_tokens for request in self.requests)
        self._sink.put(self.id, Embeddings([request.result for request in self.requests], num_tokens))


class SampleControl:
    """One sample of a call, for a reader of its own."""

    def __init__(self, request: Request, loop: RequestLoop) -> None:
        self.id = request.id
        self._loop = loop

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._loop.abort_all([self.id], reason)
