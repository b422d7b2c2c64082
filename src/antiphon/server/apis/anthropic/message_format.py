"""`MessageFormat`: the answer to a request for a message, as one object or as events."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.apis.anthropic.output import MessageOutput
from antiphon.server.apis.anthropic.request_schemas import MessagesBody
from antiphon.server.generation.chat.chat_call import ChatCall, finish_reason, is_cut
from antiphon.server.generation.text.wire_format import WireEvent, WireFormat
from antiphon.server.web.http.events import named_event


class MessageFormat(WireFormat):
    """State of one message while it is generated; `message` returns it as generated so far."""

    def __init__(self, body: MessagesBody, chat: ChatCall) -> None:
        self.chat = chat
        self.id = f"msg_{uuid.uuid4().hex}"
        self._body = body
        self._output = MessageOutput(body.thinking is None or body.thinking.display != "omitted")
        self._parser = chat.parser()
        self._reason: str | None = None
        self._sequence: str | None = None
        self._usage = _usage(len(chat.call.prompt), 0, 0)

    def start(self) -> Iterator[WireEvent]:
        yield {"type": "message_start", "message": self.message()}
        yield {"type": "ping"}

    def take(self, number: int, update: TextDelta | Ended) -> Iterator[WireEvent]:
        if isinstance(update, Ended):
            yield from self._end(update)
        else:
            yield from self._output.take(self._parser.feed(self.chat.text(update)))

    def encode(self, content: WireEvent) -> bytes:
        return named_event(content["type"], content)

    async def whole(self) -> WireEvent:
        return self.message()

    def _end(self, ended: Ended) -> Iterator[WireEvent]:
        yield from self._output.take(self._parser.finish(is_cut(ended)))
        yield from self._output.finish()
        if finish_reason(self._parser, ended) == "length":
            is_cut_by_request = self.chat.call.params.max_tokens >= self._body.max_tokens
            self._reason = "max_tokens" if is_cut_by_request else "model_context_window_exceeded"
        elif ended.stop_string is not None and ended.stop_string in (self._body.stop_sequences or ()):
            self._reason, self._sequence = "stop_sequence", ended.stop_string
        else:
            self._reason = "tool_use" if self._parser.num_calls else "end_turn"
        self._usage = _usage(ended.prompt_tokens, ended.cached_tokens, ended.completion_tokens)
        delta = {"stop_reason": self._reason, "stop_sequence": self._sequence}
        yield {"type": "message_delta", "delta": delta, "usage": self._usage}
        yield {"type": "message_stop"}

    def message(self) -> WireEvent:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.chat.model.name,
            "content": list(self._output.blocks),
            "stop_reason": self._reason,
            "stop_sequence": self._sequence,
            "usage": self._usage,
        }


def _usage(prompt: int, cached: int, output: int) -> dict[str, int]:
    """Return the `usage` field; Anthropic's `input_tokens` exclude cached tokens."""
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }
