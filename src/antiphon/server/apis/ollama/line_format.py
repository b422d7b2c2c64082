"""`LineFormat`: an answer in Ollama's form, streamed as lines of JSON or sent as one object."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator

import orjson

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.chat.chat_call import finish_reason, is_cut
from antiphon.server.generation.text.logprobs import RankedTokenEntry
from antiphon.server.generation.text.wire_format import WireEvent, WireFormat
from antiphon.server.serving.model_card import rfc3339
from antiphon.text.tool_calls.arguments import arguments_object
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser, Piece, Reasoning

NDJSON = "application/x-ndjson"


def nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)


class LineFormat(WireFormat):
    """An answer as lines of JSON, built from the engine's events.

    `text` returns the text of a delta, and `logprobs` the entries of its tokens, None if the request asks for none.
    `begun` and `loaded` are the times (`time.perf_counter`) at which the request arrived and its model was ready.
    """

    media_type = NDJSON

    def __init__(
        self,
        model: str,
        parser: OutputParser,
        text: Callable[[TextDelta], str],
        logprobs: Callable[[TextDelta], list[RankedTokenEntry] | None],
        begun: float,
        loaded: float,
    ) -> None:
        self._model = model
        self._parser = parser
        self._text = text
        self._entries = logprobs
        self._begun, self._loaded = begun, loaded
        self._call: WireEvent | None = None
        self._arguments = ""
        self._ended: Ended | None = None
        self.token_ids: list[int] = []
        self.content = ""
        self.thinking = ""
        self.calls: list[WireEvent] = []
        self.logprobs: list[RankedTokenEntry] = []

    @abstractmethod
    def shape(self, content: str, thinking: str = "", calls: list[WireEvent] | None = None) -> WireEvent:
        """Wrap new text, thinking and calls in the fields of the route's answer."""

    def take(self, number: int, update: TextDelta | Ended) -> Iterator[WireEvent]:
        return self._end(update) if isinstance(update, Ended) else self._lines_of(update)

    def encode(self, content: WireEvent) -> bytes:
        return orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE)

    async def whole(self) -> WireEvent:
        assert self._ended is not None
        line = self.last(self._ended, self.shape(self.content, self.thinking, self.calls))
        return line | ({"logprobs": self.logprobs} if self.logprobs else {})

    def _lines_of(self, delta: TextDelta) -> Iterator[WireEvent]:
        self.token_ids += delta.token_ids
        entries = self._entries(delta) or []
        self.logprobs += entries
        lines = list(self._lines(self._parser.feed(self._text(delta))))
        if entries and not lines:
            lines = [self._line(self.shape(""))]
        for index, line in enumerate(lines):
            yield line if index or not entries else {**line, "logprobs": entries}

    def _end(self, ended: Ended) -> Iterator[WireEvent]:
        self._ended = ended
        yield from self._lines(self._parser.finish(is_cut(ended)))
        yield from self._end_call()
        yield self.last(ended, self.shape(""))

    def last(self, ended: Ended, part: WireEvent) -> WireEvent:
        reason = finish_reason(self._parser, ended)
        return {
            **self._line(part, is_done=True),
            "done_reason": "stop" if reason == "tool_calls" else reason,
            "total_duration": nanoseconds(time.perf_counter() - self._begun),
            "load_duration": nanoseconds(self._loaded - self._begun),
            "prompt_eval_count": ended.prompt_tokens,
            "prompt_eval_duration": nanoseconds(max(0.0, ended.time_to_first_token - ended.queue)),
            "eval_count": ended.completion_tokens,
            "eval_duration": nanoseconds(max(0.0, ended.total - ended.time_to_first_token)),
        }

    def _line(self, part: WireEvent, is_done: bool = False) -> WireEvent:
        return {"model": self._model, "created_at": rfc3339(time.time()), **part, "done": is_done}

    def _lines(self, pieces: list[Piece]) -> Iterator[WireEvent]:
        for piece in pieces:
            if isinstance(piece, CallArguments):
                self._arguments += piece.text
                continue
            yield from self._end_call()
            if isinstance(piece, Content):
                self.content += piece.text
                yield self._line(self.shape(piece.text))
            elif isinstance(piece, Reasoning):
                self.thinking += piece.text
                yield self._line(self.shape("", piece.text))
            elif isinstance(piece, CallStart):
                self._call = {"index": piece.index, "name": piece.name}

    def _end_call(self) -> Iterator[WireEvent]:
        """Yield the line of the open call: calls are sent whole, with their arguments as an object."""
        if self._call is None:
            return
        function = {**self._call, "arguments": arguments_object(self._arguments)}
        call = {"id": f"call_{len(self.calls)}", "function": function}
        self._call, self._arguments = None, ""
        self.calls.append(call)
        yield self._line(self.shape("", calls=[call]))


class ChatLines(LineFormat):
    def shape(self, content: str, thinking: str = "", calls: list[WireEvent] | None = None) -> WireEvent:
        message: WireEvent = {"role": "assistant", "content": content}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = calls
        return {"message": message}


class GenerateLines(LineFormat):
    """Lines of `/api/generate`.

    `prompt` holds the token ids of the prompt, which begin the answer's `context`; None for a raw prompt, whose answer
    has no `context`.
    """

    prompt: list[int] | None = None

    def shape(self, content: str, thinking: str = "", calls: list[WireEvent] | None = None) -> WireEvent:
        return {"response": content} | ({"thinking": thinking} if thinking else {})

    def last(self, ended: Ended, part: WireEvent) -> WireEvent:
        line = super().last(ended, part)
        return line if self.prompt is None else line | {"context": [*self.prompt, *self.token_ids]}
