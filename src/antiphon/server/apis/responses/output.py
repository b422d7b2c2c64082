"""`ResponseOutput`: the output items of a response while they are generated, and their events."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from antiphon.server.apis.responses.items import new_id
from antiphon.server.apis.responses.tools import CalledTool
from antiphon.server.generation.text.logprobs import RankedTokenEntry
from antiphon.server.generation.text.wire_format import WireEvent
from antiphon.text.tool_calls.arguments import arguments_object
from antiphon.text.tool_calls.output_parser import CallArguments, CallStart, Content, Piece, Reasoning

SEARCH = "tool_search_call"
#: Field with the arguments of a call, and prefix of the events about it, by item type.
ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input"}
ARGUMENT_EVENTS = {
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}
#: Number of characters and of log-probabilities in each delta, per output item.
Cuts = list[list[tuple[int, int]]]


class ResponseOutput:
    """Output items built from the parser's output; the last of `items` stays open until the next one begins.

    `replayed` are the items of a stored response, whose ids are reused. `called` maps the name in a tool call to the
    tool; other calls become functions or custom tools without a namespace.
    """

    def __init__(self, replayed: Sequence[WireEvent] = (), called: Mapping[str, CalledTool] | None = None) -> None:
        self.items: list[WireEvent] = []
        self.cuts: Cuts = []
        self._replayed = replayed
        self._called = called or {}
        self._arguments = ""
        self._is_open = False

    @property
    def reasoning(self) -> str:
        parts = (part["text"] for item in self.items if item["type"] == "reasoning" for part in item["content"])
        return "".join(parts)

    def take(self, pieces: list[Piece], logprobs: list[RankedTokenEntry]) -> Iterator[WireEvent]:
        """Yield the events of parsed pieces; `logprobs` belong to their text."""
        for piece in pieces:
            if isinstance(piece, Content):
                yield from self._add_text("message", piece.text, logprobs)
                logprobs = []
            elif isinstance(piece, Reasoning):
                yield from self._add_text("reasoning", piece.text, [])
            elif isinstance(piece, CallStart):
                yield from self._begin_call(piece)
            elif isinstance(piece, CallArguments):
                yield from self._add_arguments(piece.text)

    def finish(self, is_complete: bool) -> Iterator[WireEvent]:
        """Close the last item. An empty output becomes an empty message."""
        if not self.items:
            yield from self._begin_text("message")
        yield from self._close("completed" if is_complete else "incomplete")

    def _event(self, kind: str, **fields: Any) -> WireEvent:
        """Return an event about the last item."""
        return {"type": kind, "item_id": self.items[-1]["id"], "output_index": len(self.items) - 1, **fields}

    def _item_event(self, kind: str) -> WireEvent:
        return {"type": kind, "output_index": len(self.items) - 1, "item": dict(self.items[-1])}

    def _add_text(self, kind: str, text: str, logprobs: list[RankedTokenEntry]) -> Iterator[WireEvent]:
        if not self._is_open or self.items[-1]["type"] != kind:
            yield from self._close("completed")
            yield from self._begin_text(kind)
        part = self.items[-1]["content"][0]
        part["text"] += text
        self.cuts[-1].append((len(text), len(logprobs)))
        if kind == "message":
            part["logprobs"] += logprobs
            yield self._event("response.output_text.delta", content_index=0, delta=text, logprobs=logprobs)
        else:
            yield self._event("response.reasoning_text.delta", content_index=0, delta=text)

    def _begin_text(self, kind: str) -> Iterator[WireEvent]:
        item: WireEvent = {"id": self._id(kind), "type": kind, "status": "in_progress", "content": []}
        part: WireEvent = {"type": "reasoning_text", "text": ""}
        if kind == "message":
            item["role"] = "assistant"
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item["summary"] = []
        self._add(item)
        yield self._item_event("response.output_item.added")
        item["content"] = [part]
        yield self._event("response.content_part.added", content_index=0, part=_copy(part))

    def _begin_call(self, piece: CallStart) -> Iterator[WireEvent]:
        yield from self._close("completed")
        kind = "custom_tool_call" if piece.is_custom else "function_call"
        tool = self._called.get(piece.name) or CalledTool(kind, piece.name)
        call_id = self._earlier("call_id") or f"call_{uuid.uuid4().hex}"
        item: WireEvent = {
            "id": self._id(tool.kind),
            "type": tool.kind,
            "status": "in_progress",
            "call_id": call_id,
        }
        if tool.kind == SEARCH:
            item |= {"execution": "client", "arguments": {}}
        else:
            item |= {"name": tool.name, ARGUMENTS[tool.kind]: ""}
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
        self._arguments = ""
        self._add(item)
        yield self._item_event("response.output_item.added")

    def _add_arguments(self, text: str) -> Iterator[WireEvent]:
        item = self.items[-1]
        self.cuts[-1].append((len(text), 0))
        if item["type"] == SEARCH:  # shows its arguments as an object, once they are complete
            self._arguments += text
            return
        item[ARGUMENTS[item["type"]]] += text
        yield self._event(f"{ARGUMENT_EVENTS[item['type']]}.delta", delta=text)

    def _add(self, item: WireEvent) -> None:
        self.items.append(item)
        self.cuts.append([])
        self._is_open = True

    def _id(self, kind: str) -> str:
        return self._earlier("id") or new_id(kind)

    def _earlier(self, name: str) -> str | None:
        """Return a field of the replayed item at the next index, or None if no item is replayed there."""
        index = len(self.items)
        return self._replayed[index][name] if index < len(self._replayed) else None

    def _close(self, status: str) -> Iterator[WireEvent]:
        if not self._is_open:
            return
        self._is_open = False
        item = self.items[-1]
        item["status"] = status
        kind = item["type"]
        if kind == SEARCH:
            item["arguments"] = arguments_object(self._arguments)
        elif kind in ARGUMENTS:
            name = {"name": item["name"]} if kind == "function_call" else {}
            field = ARGUMENTS[kind]
            yield self._event(f"{ARGUMENT_EVENTS[kind]}.done", **name, **{field: item[field]})
        else:
            part = item["content"][0]
            text = {"content_index": 0, "text": part["text"]}
            if item["type"] == "message":
                yield self._event("response.output_text.done", **text, logprobs=part["logprobs"])
            else:
                yield self._event("response.reasoning_text.done", **text)
            yield self._event("response.content_part.done", content_index=0, part=_copy(part))
        yield self._item_event("response.output_item.done")


def _copy(part: WireEvent) -> WireEvent:
    """Copy a part, because the original continues to grow."""
    return {name: list(value) if isinstance(value, list) else value for name, value in part.items()}
