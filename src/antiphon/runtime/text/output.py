"""`SampleOutput`: the tokens of one sample as text, and the whole answer at its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from antiphon.engine.request import FinishReason, Request
from antiphon.errors import EngineError
from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.text.detokenizer import IncrementalDetokenizer
from antiphon.text.stop import StopStrings
from antiphon.text.tokenization.tokenizer import Tokenizer


@dataclass(frozen=True)
class Timings:
    """Durations of a request, in seconds."""

    queue: float
    time_to_first_token: float
    time_per_output_token: float
    total: float
    inter_token_gaps: list[float] = field(repr=False, default_factory=list)


@dataclass(frozen=True)
class Completion:
    """A whole answer.

    `finish_reason` is `stop`, `length` (`max_tokens` was reached) or `cancelled`, among others. `cached_tokens` is the
    number of prompt tokens that came from the prefix cache. With `SamplingParams.speculate`, `drafted_tokens` were
    computed as a draft, and `accepted_tokens` of them became part of the answer. Log-probabilities exist only if
    `SamplingParams` requests them.
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
    prompt_top_logprobs: list[list[tuple[int, float]]] | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0


class SampleOutput:
    """The text of a request's tokens. Tokens come, and `take` and `ended` are called, in the engine's thread.

    `mark` is called once when there is something to take, and again only after `take`: a step gives a sample one delta.
    """

    def __init__(self, tokenizer: Tokenizer, request: Request, mark: Callable[[SampleOutput], None]) -> None:
        self.request = request
        self._detokenizer = IncrementalDetokenizer(
            tokenizer, skip_special_tokens=request.params.skip_special_tokens, prompt_ids=request.prompt
        )
        self._stops = StopStrings(request.params.stop) if request.params.stop else None
        self._pending: deque[tuple[str, int]] = deque()
        self._text: list[str] = []
        self._mark = mark
        self._is_marked = False
        self._is_stopped = False
        self._num_taken = 0
        self.is_done = False
        #: True if the call was rejected after this request had been accepted: nothing of it is emitted.
        self.is_rejected = False
        request.on_token = self._push
        request.on_end = self._finish

    def _push(self, token: int) -> bool:
        text = self._detokenizer.push(token)
        if self._stops is not None:
            text, self._is_stopped = self._pushed(self._stops, text)
        self._add(text, token)
        return self._is_stopped

    def _finish(self, request: Request) -> None:
        rest = ""
        if not self._is_stopped and request.error is None:
            rest = self._stop_token_text() + self._detokenizer.flush()
            if self._stops is not None:
                rest, stopped = self._pushed(self._stops, rest)
                rest = rest if stopped else rest + self._stops.flush()
        self.is_done = True
        self._add(rest, -1)

    def _pushed(self, stops: StopStrings, text: str) -> tuple[str, bool]:
        """Return the text that may be shown, with the stop string if requested, and whether generation ends here."""
        text, is_stopped = stops.push(text)
        if is_stopped and self.request.params.include_stop_str_in_output:
            text += stops.stopped or ""
        return text, is_stopped

    def _stop_token_text(self) -> str:
        """Return the text of the token that ended the request, if requested; otherwise an empty string."""
        request = self.request
        if not request.params.include_stop_str_in_output or request.finish_reason is not FinishReason.STOP:
            return ""
        last = request.tokens[-1]
        return self._detokenizer.push(last) if last in request.stop_ids else ""

    def _add(self, text: str, token: int) -> None:
        self._pending.append((text, token))
        if not self._is_marked:
            self._is_marked = True
            self._mark(self)

    def take(self) -> TextDelta | None:
        """Return the text and tokens since the last call; None if there are no new ones."""
        self._is_marked = False
        pieces, ids = [], []
        while self._pending:
            text, token = self._pending.popleft()
            pieces.append(text)
            if token >= 0:
                ids.append(token)
        text = "".join(pieces)
        self._text.append(text)
        request = self.request
        if request.params.logprobs is None:
            return TextDelta(request.id, text, ids) if text or ids else None
        first = self._num_taken
        if self.is_done and request.finish_reason is FinishReason.STOP:
            ids = request.output[first:]  # with the end token, which has no text
        if not text and not ids:
            return None
        self._num_taken += len(ids)
        taken = slice(first, self._num_taken)
        return TextDelta(request.id, text, ids, request.logprobs[taken], request.top_logprobs[taken])

    def ended(self) -> Ended:
        """Return how the request ended. Call this only when the request is done."""
        request, marks = self.request, self.request.marks
        assert request.finish_reason is not None
        wants_prompt = request.params.prompt_logprobs
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
            prompt_logprobs=self._prompt_source().prompt_logprobs if wants_prompt else [],
            prompt_top_logprobs=self._prompt_source().prompt_top_logprobs if wants_prompt else [],
            prompt_ranks=self._prompt_source().prompt_ranks if wants_prompt else [],
            stop_string=self._stops.stopped if self._stops is not None and self._is_stopped else None,
            drafted_tokens=request.drafted.proposed,
            accepted_tokens=request.drafted.accepted,
            drafted_at=request.drafted.proposed_at,
            accepted_at=request.drafted.accepted_at,
        )

    def _prompt_source(self) -> Request:
        """Return the request that computed the prompt: for a fork, its parent."""
        parent = self.request.fork_of
        return self.request if self.request.prompt_logprobs or parent is None else parent

    def completion(self, ended: Ended) -> Completion:
        """Return the whole answer, given the sample's `Ended` event. Raise EngineError if the sample failed."""
        check_not_failed(ended)
        request, params = self.request, self.request.params
        return Completion(
            text="".join(self._text),
            token_ids=request.output,
            finish_reason=FinishReason(ended.finish_reason),
            prompt_tokens=ended.prompt_tokens,
            cached_tokens=ended.cached_tokens,
            preemptions=ended.preemptions,
            timings=Timings(
                ended.queue, ended.time_to_first_token, ended.time_per_output_token, ended.total, ended.gaps
            ),
            logprobs=request.logprobs if params.logprobs is not None else None,
            top_logprobs=request.top_logprobs if params.logprobs is not None else None,
            prompt_logprobs=ended.prompt_logprobs if params.prompt_logprobs else None,
            prompt_top_logprobs=ended.prompt_top_logprobs if params.prompt_logprobs else None,
            drafted_tokens=ended.drafted_tokens,
            accepted_tokens=ended.accepted_tokens,
        )


def check_not_failed(ended: Ended) -> None:
    """Raise EngineError with the cause if the request failed, or if its engine was closed before it ended."""
    if ended.error is not None:
        raise EngineError(f"request {ended.id} failed: {ended.error}")
