"""From tokens to a reader: text as it comes, in bounded memory, with no reader ever blocking the engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from antiphon.engine.request import FinishReason, Request
from antiphon.errors import EngineError
from antiphon.text.detokenizer import IncrementalDetokenizer
from antiphon.text.stop import StopStrings
from antiphon.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Delta:
    """Text that was added since the last delta. A slow reader gets fewer and larger ones."""

    text: str
    token_ids: list[int]


@dataclass(frozen=True)
class Timings:
    """How long a request took, in seconds."""

    queue: float
    time_to_first_token: float
    time_per_output_token: float
    total: float
    inter_token_gaps: list[float] = field(repr=False, default_factory=list)


@dataclass(frozen=True)
class Completion:
    """A whole answer.

    `finish_reason` is `stop`, `length` (`max_tokens` was reached) or `cancelled`, among others. `cached_tokens` is
    how many of the prompt's tokens came from the prefix cache. Log-probabilities are there if `SamplingParams` asked
    for them.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    prompt_tokens: int
    cached_tokens: int
    preemptions: int
    timings: Timings
    logprobs: list[float] | None = None
    top_logprobs: list[list[tuple[int, float]]] | None = None
    prompt_logprobs: list[float] | None = None


class TextOutput:
    """Turns a request's tokens into text in the engine's thread and holds it until somebody reads it."""

    def __init__(self, tokenizer: Tokenizer, request: Request, wake: Callable[[], None]) -> None:
        self.request = request
        self._detokenizer = IncrementalDetokenizer(tokenizer, prompt_ids=request.prompt)
        self._stops = StopStrings(request.params.stop) if request.params.stop else None
        self._pending: deque[tuple[str, int]] = deque()
        self._text: list[str] = []
        self._wake = wake
        self._stopped = False
        self.is_done = False
        request.on_token = self._take
        request.on_end = self._finish

    def _take(self, token: int) -> bool:
        text = self._detokenizer.push(token)
        if self._stops is not None:
            text, self._stopped = self._stops.push(text)
        self._pending.append((text, token))
        self._wake()
        return self._stopped

    def _finish(self, request: Request) -> None:
        rest = ""
        if not self._stopped and request.error is None:
            rest = self._detokenizer.flush()
            if self._stops is not None:
                rest, stopped = self._stops.push(rest)
                rest = rest if stopped else rest + self._stops.flush()
        self._pending.append((rest, -1))
        self.is_done = True
        self._wake()

    def read(self) -> Delta | None:
        """Everything that has come since the last call; None if nothing has. Never waits."""
        pieces, ids = [], []
        while self._pending:
            text, token = self._pending.popleft()
            pieces.append(text)
            if token >= 0:
                ids.append(token)
        text = "".join(pieces)
        if not text and not ids:
            return None
        self._text.append(text)
        return Delta(text, ids)

    def completion(self) -> Completion:
        """The whole answer, once `is_done`; raises the cause if the request failed."""
        request = self.request
        self.read()
        if request.finish_reason is FinishReason.FAILED:
            raise EngineError(f"request {request.id} failed: {request.error}")
        assert request.finish_reason is not None
        marks, params = request.marks, request.params
        return Completion(
            text="".join(self._text),
            token_ids=request.output,
            finish_reason=request.finish_reason,
            prompt_tokens=request.num_prompt_tokens,
            cached_tokens=request.num_cached_tokens,
            preemptions=marks.preemptions,
            timings=Timings(
                marks.queue_wait,
                marks.time_to_first_token,
                marks.time_per_output_token,
                marks.end_to_end,
                marks.inter_token_gaps,
            ),
            logprobs=request.logprobs if params.logprobs is not None else None,
            top_logprobs=request.top_logprobs if params.logprobs is not None else None,
            prompt_logprobs=self._prompt_logprobs() if params.prompt_logprobs else None,
        )

    def _prompt_logprobs(self) -> list[float]:
        """Its own, or for a fork, which did not compute the prompt, those of the request it started from."""
        parent = self.request.fork_of
        return self.request.prompt_logprobs or (parent.prompt_logprobs if parent is not None else [])


class Stream:
    """An iterator of deltas. Closing it, or dropping it, cancels the request if it is still running."""

    def __init__(self, cancel: Callable[[str, FinishReason], None]) -> None:
        self._event = threading.Event()
        self._cancel = cancel
        self._output: TextOutput | None = None

    def attach(self, tokenizer: Tokenizer, request: Request) -> None:
        self._output = TextOutput(tokenizer, request, self._event.set)

    @property
    def output(self) -> TextOutput:
        assert self._output is not None
        return self._output

    @property
    def id(self) -> str:
        """The request's id, as in traces."""
        return self.output.request.id

    def __iter__(self) -> Iterator[Delta]:
        return self

    def __next__(self) -> Delta:
        output = self.output
        while True:
            self._event.clear()
            done = output.is_done
            delta = output.read()
            if delta is not None:
                return delta
            if done:
                if output.request.finish_reason is FinishReason.FAILED:
                    raise EngineError(f"request {self.id} failed: {output.request.error}")
                raise StopIteration
            self._event.wait()

    def wait(self) -> Completion:
        """Read to the end and return the whole answer."""
        for _ in self:
            pass
        return self.output.completion()

    def completion(self) -> Completion:
        """The whole answer of a stream that was read to its end."""
        if not self.output.is_done:
            raise EngineError(f"request {self.id} has not ended yet")
        return self.output.completion()

    def cancel(self) -> None:
        """Cancel the request. What was generated so far can still be read."""
        if self._output is not None and not self._output.is_done:
            self._cancel(self.id, FinishReason.CANCELLED)

    def close(self) -> None:
        """Cancel the request if it is still running and free its memory."""
        if self._output is not None and not self._output.is_done:
            self._cancel(self.id, FinishReason.DISCONNECTED)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
