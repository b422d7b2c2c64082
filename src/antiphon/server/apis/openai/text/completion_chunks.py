"""`CompletionChunks`: the chunks of streamed completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.text.completion_call import CompletionCall
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.logprobs import completion_logprobs, num_characters
from antiphon.server.generation.text.streaming import Chunk, Chunks, StreamedUsage, TextEvents, log_usage


class CompletionChunks(Chunks):
    """`log_fields` gets the usage at the end."""

    def __init__(self, completion: CompletionCall, generations: Generations, log_fields: dict[str, Any]) -> None:
        self._completion = completion
        self._generations = generations
        self._log_fields = log_fields
        self._usage = StreamedUsage(completion.body.stream_options, completion.calls)
        self._base = completion.base()
        count = len(completion.calls) * completion.n
        self._untold = set(range(count))  # choices whose prompt's ids have not been sent
        self._offsets = [0] * count  # characters so far
        body = completion.body
        has_more = body.logprobs is not None or body.return_token_ids or self._usage.is_continuous
        #: For each choice, if a chunk has nothing but text that changes.
        self._texts = [] if has_more else [self._text_events(number) for number in range(count)]

    def opening(self) -> list[Chunk]:
        if not self._completion.body.echo:
            return []
        texts = [self._completion.echo(number) for number in range(len(self._offsets))]
        self._offsets = [len(text) for text in texts]
        return [self._chunk(number, text) for number, text in enumerate(texts)]

    def take(self, number: int, update: TextDelta | Ended) -> list[Chunk]:
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

    def _columns(self, number: int, event: TextDelta) -> dict[str, Any]:
        body, tokenizer = self._completion.body, self._completion.model.text.tokenizer
        ids, tops = event.token_ids, event.top_logprobs if body.logprobs else None
        as_ids = bool(body.return_tokens_as_token_ids)
        columns = completion_logprobs(tokenizer, ids, event.logprobs, tops, self._offsets[number], as_ids)
        self._offsets[number] += sum(num_characters(tokenizer, token) for token in ids)
        return columns

    def closing(self) -> list[Chunk]:
        usage = self._generations.usage(bool(self._completion.body.timings))
        log_usage(self._log_fields, usage)
        return [{**self._base, "choices": [], "usage": usage}] if self._usage.is_asked else []

    def _chunk(
        self, number: int, text: str, columns: Any = None, reason: str | None = None, ids: Sequence[int] = ()
    ) -> Chunk:
        choice: dict[str, Any] = {"index": number, "text": text, "logprobs": columns, "finish_reason": reason}
        if self._completion.body.return_token_ids:
            choice["prompt_token_ids"] = self._completion.prompt(number) if number in self._untold else None
            choice["token_ids"] = list(ids)
            self._untold.discard(number)
        return {**self._base, "choices": [choice], **self._usage.tail(number)}
