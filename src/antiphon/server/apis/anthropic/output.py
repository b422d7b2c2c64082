"""`MessageOutput`: the content blocks of a message while it is generated, and their events."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.text.tool_calls.arguments import arguments_object
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, Piece, Reasoning

DELTAS = {"text": "text_delta", "thinking": "thinking_delta"}


class MessageOutput:
    """Content blocks, built from the parser's output; the last of `blocks` stays open until the next one begins.

    Thinking blocks stay empty unless `shows_thinking`.
    """

    def __init__(self, shows_thinking: bool = True) -> None:
        self.blocks: list[WireEvent] = []
        self._shows_thinking = shows_thinking
        self._is_open = False
        self._arguments = ""

    def take(self, pieces: list[Piece]) -> Iterator[WireEvent]:
        for piece in pieces:
            if isinstance(piece, Content):
                yield from self._add_text("text", piece.text)
            elif isinstance(piece, Reasoning):
                yield from self._add_text("thinking", piece.text)
            elif isinstance(piece, CallStart):
                block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex}", "name": piece.name, "input": {}}
                yield from self._begin(block)
            elif isinstance(piece, CallArguments):
                self._arguments += piece.text
                yield self._delta("input_json_delta", partial_json=piece.text)

    def finish(self) -> Iterator[WireEvent]:
        """Close the last block, and yield its end event."""
        if not self._is_open:
            return
        block, self._is_open = self.blocks[-1], False
        if block["type"] == "tool_use":
            block["input"] = arguments_object(self._arguments)
            self._arguments = ""
        yield {"type": "content_block_stop", "index": len(self.blocks) - 1}

    def _add_text(self, kind: str, text: str) -> Iterator[WireEvent]:
        if not self._is_open or self.blocks[-1]["type"] != kind:
            yield from self._begin({"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {}))
        if kind == "thinking" and not self._shows_thinking:
            return
        self.blocks[-1][kind] += text
        yield self._delta(DELTAS[kind], **{kind: text})

    def _begin(self, block: WireEvent) -> Iterator[WireEvent]:
        yield from self.finish()
        self.blocks.append(block)
        self._is_open = True
        yield {"type": "content_block_start", "index": len(self.blocks) - 1, "content_block": dict(block)}

    def _delta(self, kind: str, **fields: str) -> WireEvent:
        delta = {"type": kind, **fields}
        return {"type": "content_block_delta", "index": len(self.blocks) - 1, "delta": delta}
