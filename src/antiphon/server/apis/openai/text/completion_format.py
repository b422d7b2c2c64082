"""`CompletionFormat`: completions as one object or as chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.openai.usage import StreamedUsage, usage_field
from antiphon.server.generation.text.completion_call import CompletionCall
from antiphon.server.generation.text.logprobs import TokenColumns, completion_logprobs, num_characters, prompt_logprobs
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import TextEvents, WireEvent, WireFormat
from antiphon.server.web.http.events import DONE


@dataclass
class CompletionSample:
    """Output of one sample, complete after its `Ended`."""

    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    ended: Ended | None = None

    def add(self, update: TextDelta | Ended) -> None:
        if isinstance(update, Ended):
            self.ended = update
            return
        self.text.append(update.text)
        self.token_ids += update.token_ids
        self.logprobs += update.logprobs
        self.top_logprobs += update.top_logprobs

    @property
    def mean_logprob(self) -> float:
        return sum(self.logprobs) / len(self.logprobs) if self.logprobs else float("-inf")

    @property
    def end(self) -> Ended:
        assert self.ended is not None
        return self.ended


class CompletionFormat(WireFormat):
    end = DONE

    def __init__(self, completion: CompletionCall) -> None:
        self._completion = completion
        self._samples = [CompletionSample() for call in completion.calls for _ in range(call.n)]
        self._answer: WireEvent = {}
        self._usage = StreamedUsage(completion.body.stream_options, completion.calls)
        self._base = completion.base()
        count = len(completion.calls) * completion.n
        self._untold = set(range(count))  # choices whose prompt token ids have not been sent
        self._offsets = [0] * count  # characters sent per choice
        body = completion.body
        has_more = body.logprobs is not None or body.return_token_ids or self._usage.is_continuous
        #: Prebuilt text chunk per choice; empty if chunks differ in more than their text.
        self._texts = [] if has_more else [self._text_events(number) for number in range(count)]

    def start(self) -> list[WireEvent]:
        if not self._completion.body.echo:
            return []
        texts = [self._completion.echo(number) for number in range(len(self._offsets))]
        self._offsets = [len(text) for text in texts]
        return [self._chunk(number, text) for number, text in enumerate(texts)]

    def take(self, number: int, update: TextDelta | Ended) -> list[WireEvent]:
        if isinstance(update, Ended):
            return [self._chunk(number, "", reason=update.finish_reason)]
        self._usage.count(number, update)
        columns = None if self._completion.body.logprobs is None else self._columns(number, update)
        return [self._chunk(number, update.text, columns, ids=update.token_ids)]

    def encoded(self, number: int, update: TextDelta | Ended) -> bytes:
        if type(update) is TextDelta and self._texts:
            self._usage.count(number, update)
            return self._texts[number].event(update.text)
        return super().encoded(number, update)

    def _text_events(self, number: int) -> TextEvents:
        return TextEvents(lambda text: self._chunk(number, text))

    def _columns(self, number: int, event: TextDelta) -> TokenColumns:
        body, tokenizer = self._completion.body, self._completion.model.text.tokenizer
        ids, tops = event.token_ids, event.top_logprobs if body.logprobs else None
        as_ids = bool(body.return_tokens_as_token_ids)
        columns = completion_logprobs(tokenizer, ids, event.logprobs, tops, self._offsets[number], as_ids)
        self._offsets[number] += sum(num_characters(tokenizer, token) for token in ids)
        return columns

    def add(self, number: int, update: TextDelta | Ended) -> None:
        self._samples[number].add(update)

    def finish(self, usage: TokenUsage) -> list[WireEvent]:
        completion, shown = self._completion, usage_field(usage, self._completion.body.timings)
        if completion.body.stream:
            return [{**self._base, "choices": [], "usage": shown}] if self._usage.is_asked else []
        numbers = _best(completion, self._samples)
        choices = [_choice(completion, index, number, self._samples[number]) for index, number in enumerate(numbers)]
        self._answer = {**completion.base(), "choices": choices, "usage": shown}
        return []

    async def whole(self) -> WireEvent:
        return self._answer

    def _chunk(
        self, number: int, text: str, columns: Any = None, reason: str | None = None, ids: Sequence[int] = ()
    ) -> WireEvent:
        choice: WireEvent = {"index": number, "text": text, "logprobs": columns, "finish_reason": reason}
        if self._completion.body.return_token_ids:
            choice["prompt_token_ids"] = self._completion.prompt(number) if number in self._untold else None
            choice["token_ids"] = list(ids)
            self._untold.discard(number)
        return {**self._base, "choices": [choice], **self._usage.tail(number)}


def _choice(completion: CompletionCall, index: int, number: int, sample: CompletionSample) -> WireEvent:
    text = completion.echo(number) + ("" if completion.wants_no_output else "".join(sample.text))
    reason = "length" if completion.wants_no_output else sample.end.finish_reason
    columns = _columns(completion, number, sample)
    choice = {"index": index, "text": text, "logprobs": columns, "finish_reason": reason}
    return {**choice, **_details(completion, number, sample)}


def _columns(completion: CompletionCall, number: int, sample: CompletionSample) -> TokenColumns | None:
    """Return the `logprobs` of a choice: of the prompt if it is echoed, and of the output with its end token.

    The output has one entry per token: some clients count entries from the end (lm-eval).
    """
    count = completion.body.logprobs
    if count is None:
        return None
    ids: list[int] = []
    values: list[float | None] = []
    tops: list[Any] = []
    if completion.body.echo:
        ids = list(completion.prompt(number))
        values = [None, *sample.end.prompt_logprobs]
        tops = [None, *(top[:count] for top in sample.end.prompt_top_logprobs)]
    if not completion.wants_no_output:
        ids += sample.token_ids
        values += sample.logprobs
        tops += sample.top_logprobs
    as_ids = bool(completion.body.return_tokens_as_token_ids)
    return completion_logprobs(completion.model.text.tokenizer, ids, values, tops if count else None, as_ids=as_ids)


def _details(completion: CompletionCall, number: int, sample: CompletionSample) -> WireEvent:
    """Return the fields that vLLM adds to a choice on request: prompt log-probabilities and token ids."""
    details: WireEvent = {}
    prompt, count = completion.prompt(number), completion.body.prompt_logprobs
    if count is not None:
        details["prompt_logprobs"] = prompt_logprobs(completion.model.text.tokenizer, prompt, sample.end, count)
    if completion.body.return_token_ids:
        details["prompt_token_ids"] = prompt
        details["token_ids"] = [] if completion.wants_no_output else sample.token_ids
    return details


def _best(completion: CompletionCall, samples: list[CompletionSample]) -> list[int]:
    """Return the indices of the samples that become choices: per prompt, the `n` of highest mean log-probability."""
    size, n = completion.num_samples, completion.n
    if size == n:
        return list(range(len(samples)))
    groups = [range(first, first + size) for first in range(0, len(samples), size)]
    return [number for group in groups for number in sorted(group, key=lambda index: -samples[index].mean_logprob)[:n]]
