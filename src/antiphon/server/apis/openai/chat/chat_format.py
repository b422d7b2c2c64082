"""`ChatFormat`: the answer of a chat, as one object or as chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.openai.chat.function_calls import as_function_call, as_function_delta
from antiphon.server.apis.openai.chat.message_builder import MessageBuilder
from antiphon.server.apis.openai.usage import StreamedUsage, usage_field
from antiphon.server.generation.chat.chat_call import ChatCall
from antiphon.server.generation.chat.spoken_reply import SpokenReply
from antiphon.server.generation.text.usage import TokenUsage
from antiphon.server.generation.text.wire_format import TextEvents, WireEvent, WireFormat
from antiphon.server.web.http.events import DONE


class ChatFormat(WireFormat):
    """State of a chat's answer.

    `keep` is called with the complete answer, streamed or not. An answer that is not streamed is spoken by `reply`.
    """

    end = DONE

    def __init__(
        self,
        chat: ChatCall,
        keep: Callable[[WireEvent], None] | None = None,
        reply: SpokenReply | None = None,
    ) -> None:
        body = chat.body
        self._chat = chat
        self._keep = keep
        self._reply = reply
        self._usage = StreamedUsage(body.stream_options, [chat.call])
        self._base = chat.base("chat.completion.chunk")
        self._messages = [MessageBuilder(chat, keeps=not body.stream or keep is not None) for _ in range(chat.call.n)]
        self._answer: WireEvent = {}
        self._details: WireEvent = {}
        has_more = body.logprobs or body.return_token_ids or self._usage.is_continuous or keep is not None
        #: Prebuilt text chunk per choice; empty if chunks differ in more than their text.
        self._texts = [] if has_more else [self._text_events(index) for index in range(chat.call.n)]

    def start(self) -> list[WireEvent]:
        start = {"role": "assistant", "content": ""}
        chunks = [self._chunk(index, dict(start)) for index in range(self._chat.call.n)]
        chunks[0] |= self._chat.prompt_details(None)
        return chunks

    def take(self, number: int, update: TextDelta | Ended) -> list[WireEvent]:
        message = self._messages[number]
        if isinstance(update, Ended):
            chunks = [self._chunk(number, delta) for delta in message.end(update)]
            return [*chunks, self._chunk(number, {}, reason=message.finish_reason)]
        self._usage.count(number, update)
        changes, entries = message.add(update)
        logprobs = {"content": entries, "refusal": None} if entries else None
        ids: Sequence[int] = update.token_ids if self._chat.body.return_token_ids else ()
        if (logprobs is not None or ids) and not changes:
            changes = [{"content": ""}]
        if not changes:
            return []
        first = self._chunk(number, changes[0], logprobs, ids=ids)
        return [first, *(self._chunk(number, delta) for delta in changes[1:])]

    def add(self, number: int, update: TextDelta | Ended) -> None:
        message = self._messages[number]
        if isinstance(update, Ended):
            message.end(update)
            if not number:
                self._details = self._chat.prompt_details(update)
            return
        changes, _ = message.add(update)
        if self._reply is not None:
            for change in changes:
                self._reply.say(change.get("content", ""))

    def encoded(self, number: int, update: TextDelta | Ended) -> bytes:
        if type(update) is TextDelta and update.text and self._texts and self._messages[number].parser.is_transparent:
            self._usage.count(number, update)
            return self._texts[number].event(update.text)
        return super().encoded(number, update)

    def finish(self, usage: TokenUsage) -> list[WireEvent]:
        chat, shown = self._chat, usage_field(usage, self._chat.body.timings)
        if not chat.body.stream or self._keep is not None:
            choices = [message.choice(index) for index, message in enumerate(self._messages)]
            self._answer = {**chat.base("chat.completion"), "choices": choices, "usage": shown, **self._details}
            if chat.body.functions is not None:
                self._answer["choices"] = [as_function_call(choice) for choice in choices]
        if self._keep is not None and chat.body.stream:
            self._keep(self._answer)
        return [{**self._base, "choices": [], "usage": shown}] if self._usage.is_asked else []

    async def whole(self) -> WireEvent:
        if self._reply is not None:
            message = self._answer["choices"][0]["message"]
            message |= await self._reply.message(message["content"] or "")
        if self._keep is not None:
            self._keep(self._answer)
        return self._answer

    def _text_events(self, number: int) -> TextEvents:
        return TextEvents(lambda text: self._chunk(number, {"content": text}))

    def _chunk(
        self,
        number: int,
        delta: WireEvent,
        logprobs: Any = None,
        reason: str | None = None,
        ids: Sequence[int] = (),
    ) -> WireEvent:
        choice: WireEvent = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        if self._chat.body.return_token_ids:
            choice["token_ids"] = list(ids)
        if self._chat.body.functions is not None:
            choice = as_function_delta(choice)
        return {**self._base, "choices": [choice], **self._usage.tail(number)}
