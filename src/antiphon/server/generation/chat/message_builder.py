"""`MessageBuilder`: from the parsed output of a model to the message of a choice; and the same as deltas."""

from __future__ import annotations

import uuid
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.chat.chat_call import ChatCall
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, OutputParser, Piece, Reasoning


class MessageBuilder:
    """Builds the message of one choice from the pieces that the parser finds."""

    def __init__(self, chat: ChatCall) -> None:
        self._chat = chat
        self.parser = chat.parser()
        self._text = {"content": "", "reasoning_content": ""}
        self._calls: list[dict[str, Any]] = []
        self._logprobs: list[dict[str, Any]] = []
        self._token_ids: list[int] = []

    def add(self, delta: TextDelta) -> None:
        self._take(self.parser.feed(self._chat.text(delta)))
        self._logprobs += self._chat.logprobs(delta) or []
        self._token_ids += delta.token_ids

    @property
    def content(self) -> str:
        """The text so far."""
        return self._text["content"]

    def _take(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            for change in deltas([piece]):
                for name in self._text:
                    self._text[name] += change.get(name, "")
                for call in change.get("tool_calls", ()):
                    self._add_call(call)

    def _add_call(self, call: dict[str, Any]) -> None:
        kind, field = ("custom", "input") if "custom" in call else ("function", "arguments")
        if "id" in call:
            self._calls.append({"id": call["id"], "type": kind, kind: dict(call[kind])})
        else:
            self._calls[call["index"]][kind][field] += call[kind][field]

    def choice(self, index: int, ended: Ended) -> dict[str, Any]:
        self._take(self.parser.finish(is_cut(ended)))
        content = self._text["content"]
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if self._calls else "")}
        message["refusal"] = None
        if self._text["reasoning_content"]:
            message["reasoning_content"] = self._text["reasoning_content"]
        if self._calls:
            message["tool_calls"] = self._calls
        logprobs = {"content": self._logprobs, "refusal": None} if self._chat.body.logprobs else None
        reason = finish_reason(self.parser, ended)
        choice = {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}
        if self._chat.body.return_token_ids:
            choice["token_ids"] = self._token_ids
        return choice


def is_cut(ended: Ended) -> bool:
    """Whether the output ended at the limit of tokens."""
    return ended.finish_reason == "length"


def finish_reason(parser: OutputParser, ended: Ended) -> str:
    """`tool_calls` if the answer ends with calls, also if what follows the only one was discarded."""
    has_ended = ended.finish_reason == "stop" or (parser.is_ended and is_cut(ended))
    return "tool_calls" if parser.num_calls and has_ended else ended.finish_reason


def deltas(pieces: list[Piece]) -> list[dict[str, Any]]:
    """The `delta` of one chunk for each piece."""
    changes: list[dict[str, Any]] = []
    for piece in pieces:
        if isinstance(piece, Content):
            changes.append({"content": piece.text})
        elif isinstance(piece, Reasoning):
            changes.append({"reasoning_content": piece.text})
        else:
            changes.append({"tool_calls": [_call_delta(piece)]})
    return changes


def _call_delta(piece: CallStart | CallArguments) -> dict[str, Any]:
    kind, field = ("custom", "input") if piece.is_custom else ("function", "arguments")
    if isinstance(piece, CallArguments):
        return {"index": piece.index, kind: {field: piece.text}}
    call = {"name": piece.name, field: ""}
    return {"index": piece.index, "id": f"call_{uuid.uuid4().hex}", "type": kind, kind: call}
