"""`MessageBuilder`: builds the message of a choice from a model's parsed output, whole and as deltas."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.chat.chat_call import ChatCall, finish_reason, is_cut
from antiphon.server.generation.text.logprobs import RankedTokenEntry
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, Piece, Reasoning


class MessageBuilder:
    """Builder of one choice's message from the parser's output; collects the whole message only if `keeps`."""

    def __init__(self, chat: ChatCall, keeps: bool = True) -> None:
        self.parser = chat.parser()
        self.finish_reason = ""
        self._chat = chat
        self._keeps = keeps
        self._text: dict[str, list[str]] = {"content": [], "reasoning_content": []}
        self._calls: list[WireEvent] = []
        self._logprobs: list[RankedTokenEntry] = []
        self._token_ids: list[int] = []

    def add(self, delta: TextDelta) -> tuple[list[WireEvent], list[RankedTokenEntry]]:
        """Parse new text; return a `delta` for each piece found, and the log-probabilities of its tokens."""
        entries = self._chat.logprobs(delta) or []
        if self._keeps:
            self._logprobs += entries
            self._token_ids += delta.token_ids
        return self._kept(deltas(self.parser.feed(self._chat.text(delta)))), entries

    def end(self, ended: Ended) -> list[WireEvent]:
        """End the text; return a `delta` for each piece that the parser had held back."""
        changes = self._kept(deltas(self.parser.finish(is_cut(ended))))
        self.finish_reason = finish_reason(self.parser, ended)
        return changes

    def _kept(self, changes: list[WireEvent]) -> list[WireEvent]:
        if self._keeps:
            for change in changes:
                for name, texts in self._text.items():
                    if name in change:
                        texts.append(change[name])
                for call in change.get("tool_calls", ()):
                    self._add_call(call)
        return changes

    def _add_call(self, call: WireEvent) -> None:
        kind, field = ("custom", "input") if "custom" in call else ("function", "arguments")
        if "id" in call:
            self._calls.append({"id": call["id"], "type": kind, kind: dict(call[kind])})
        else:
            self._calls[call["index"]][kind][field] += call[kind][field]

    def choice(self, index: int) -> WireEvent:
        """Return the complete choice, after `end`."""
        content, reasoning = ("".join(texts) for texts in self._text.values())
        message: WireEvent = {"role": "assistant", "content": content or (None if self._calls else "")}
        message["refusal"] = None
        if reasoning:
            message["reasoning_content"] = reasoning
        if self._calls:
            message["tool_calls"] = self._calls
        logprobs = {"content": self._logprobs, "refusal": None} if self._chat.body.logprobs else None
        choice = {"index": index, "message": message, "logprobs": logprobs, "finish_reason": self.finish_reason}
        if self._chat.body.return_token_ids:
            choice["token_ids"] = self._token_ids
        return choice


def deltas(pieces: Sequence[Piece]) -> list[WireEvent]:
    changes: list[WireEvent] = []
    for piece in pieces:
        if isinstance(piece, Content):
            changes.append({"content": piece.text})
        elif isinstance(piece, Reasoning):
            changes.append({"reasoning_content": piece.text})
        else:
            changes.append({"tool_calls": [_call_delta(piece)]})
    return changes


def _call_delta(piece: CallStart | CallArguments) -> WireEvent:
    kind, field = ("custom", "input") if piece.is_custom else ("function", "arguments")
    if isinstance(piece, CallArguments):
        return {"index": piece.index, kind: {field: piece.text}}
    call = {"name": piece.name, field: ""}
    return {"index": piece.index, "id": f"call_{uuid.uuid4().hex}", "type": kind, kind: call}
