"""`ChatChunks`: the chunks of a streamed chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.chat.chat_call import ChatCall
from antiphon.server.generation.chat.message_builder import deltas, finish_reason, is_cut
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.streaming import Chunk, Chunks, StreamedUsage, TextEvents, log_usage


class ChatChunks(Chunks):
    """`log_fields` gets the usage at the end."""

    def __init__(self, chat: ChatCall, generations: Generations, log_fields: dict[str, Any]) -> None:
        self._chat = chat
        self._generations = generations
        self._log_fields = log_fields
        self._usage = StreamedUsage(chat.body.stream_options, [chat.call])
        self._base = chat.base("chat.completion.chunk")
        self._parsers = [chat.parser() for _ in range(chat.call.n)]
        has_more = chat.body.logprobs or chat.body.return_token_ids or self._usage.is_continuous
        #: For each choice, if a chunk has nothing but text that changes.
        self._texts = [] if has_more else [self._text_events(index) for index in range(chat.call.n)]

    def opening(self) -> list[Chunk]:
        start = {"role": "assistant", "content": ""}
        chunks = [self._chunk(index, dict(start)) for index in range(self._chat.call.n)]
        chunks[0] |= self._chat.prompt_details(None)
        return chunks

    def take(self, number: int, update: TextDelta | Ended) -> list[Chunk]:
        chat, parser = self._chat, self._parsers[number]
        if isinstance(update, Ended):
            chunks = [self._chunk(number, delta) for delta in deltas(parser.finish(is_cut(update)))]
            return [*chunks, self._chunk(number, {}, reason=finish_reason(parser, update))]
        self._usage.count(number, update)
        entries = chat.logprobs(update)
        logprobs = {"content": entries, "refusal": None} if entries else None
        changes = deltas(parser.feed(chat.text(update)))
        ids: Sequence[int] = update.token_ids if chat.body.return_token_ids else ()
        if (logprobs is not None or ids) and not changes:
            changes = [{"content": ""}]
        if not changes:
            return []
        first = self._chunk(number, changes[0], logprobs, ids=ids)
        return [first, *(self._chunk(number, delta) for delta in changes[1:])]

    def encoded(self, number: int, update: TextDelta | Ended) -> bytes:
        if type(update) is TextDelta and update.text and self._texts and self._parsers[number].is_transparent:
            self._usage.count(number, update)
            return self._texts[number].event(update.text)
        return super().encoded(number, update)

    def _text_events(self, number: int) -> TextEvents:
        return TextEvents(lambda text: self._chunk(number, {"content": text}))

    def closing(self) -> list[Chunk]:
        usage = self._generations.usage(bool(self._chat.body.timings))
        log_usage(self._log_fields, usage)
        return [{**self._base, "choices": [], "usage": usage}] if self._usage.is_asked else []

    def _chunk(
        self,
        number: int,
        delta: dict[str, Any],
        logprobs: Any = None,
        reason: str | None = None,
        ids: Sequence[int] = (),
    ) -> Chunk:
        choice: dict[str, Any] = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        if self._chat.body.return_token_ids:
            choice["token_ids"] = list(ids)
        return {**self._base, "choices": [choice], **self._usage.tail(number)}
