"""The whole answer of a chat from the chunks of its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.text.streaming import Chunk, Chunks

TEXTS = ("content", "reasoning_content")


class WholeAnswer:
    """Choices as they grow; `body` is the answer that a request without a stream would get."""

    def __init__(self) -> None:
        self._base: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}

    def add(self, chunk: dict[str, Any]) -> None:
        self._base = {name: value for name, value in chunk.items() if name not in ("choices", "usage", "object")}
        for choice in chunk["choices"]:
            empty = {"role": "assistant", "content": "", "refusal": None}
            made = self._choices.setdefault(
                choice["index"],
                {"index": choice["index"], "message": empty, "logprobs": None, "finish_reason": None},
            )
            _extend(made["message"], choice["delta"])
            if choice.get("logprobs"):
                made["logprobs"] = made["logprobs"] or {"content": [], "refusal": None}
                made["logprobs"]["content"] += choice["logprobs"]["content"]
            made["finish_reason"] = choice["finish_reason"] or made["finish_reason"]

    def body(self, usage: dict[str, Any]) -> dict[str, Any]:
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            message = choice["message"]
            if message.get("tool_calls") and not message["content"]:
                message["content"] = None
        return {**self._base, "object": "chat.completion", "choices": choices, "usage": usage}


def _extend(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in TEXTS:
        if delta.get(name):
            message[name] = (message.get(name) or "") + delta[name]
    for call in delta.get("tool_calls") or ():
        kind, field = ("custom", "input") if "custom" in call else ("function", "arguments")
        calls = message.setdefault("tool_calls", [])
        if call["index"] >= len(calls):
            calls.append({**{name: value for name, value in call.items() if name != "index"}, kind: dict(call[kind])})
        else:
            calls[call["index"]][kind][field] += call[kind].get(field, "")


class KeptChunks(Chunks):
    """The chunks of a chat; at the end `keep` is called with the whole answer."""

    def __init__(
        self, chunks: Chunks, usage: Callable[[], dict[str, Any]], keep: Callable[[dict[str, Any]], None]
    ) -> None:
        self._chunks = chunks
        self._usage = usage
        self._keep = keep
        self._answer = WholeAnswer()

    def opening(self) -> list[Chunk]:
        return self._added(self._chunks.opening())

    def take(self, number: int, update: TextDelta | Ended) -> list[Chunk]:
        return self._added(self._chunks.take(number, update))

    def closing(self) -> list[Chunk]:
        chunks = self._added(self._chunks.closing())
        self._keep(self._answer.body(self._usage()))
        return chunks

    def _added(self, chunks: list[Chunk]) -> list[Chunk]:
        for chunk in chunks:
            self._answer.add(chunk)
        return chunks
