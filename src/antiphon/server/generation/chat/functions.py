"""The deprecated form of tools: `functions` and `function_call` become tools, and calls become `function_call`s."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.runtime.calls.events import Ended, TextDelta
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import FunctionReference, NamedTool, Tool
from antiphon.server.generation.text.streaming import Chunk, Chunks
from antiphon.server.web.http.errors import invalid


def with_tools(body: ChatBody) -> ChatBody:
    """The chat with tools in place of functions. One function is called at most, as in that form."""
    for old, new in (("functions", "tools"), ("function_call", "tool_choice")):
        if getattr(body, old) is not None and getattr(body, new) is not None:
            raise invalid(f"{old} and {new} were given; give {new}", old)
    if body.functions is None:
        if body.function_call is not None:
            raise invalid("function_call requires functions", "function_call")
        return body
    choice: Literal["none", "auto"] | NamedTool | None
    if isinstance(body.function_call, FunctionReference):
        known = [function.name for function in body.functions]
        if body.function_call.name not in known:
            message = f"function_call names {body.function_call.name!r}, which is no function here"
            raise invalid(message, "function_call")
        choice = NamedTool(type="function", function=body.function_call)
    else:
        choice = body.function_call
    tools = [Tool(type="function", function=function) for function in body.functions]
    return body.model_copy(update={"tools": tools, "tool_choice": choice, "parallel_tool_calls": False})


def as_function_call(choice: dict[str, Any]) -> dict[str, Any]:
    """A choice with its call as a `function_call`."""
    message = dict(choice["message"])
    calls = message.pop("tool_calls", None)
    if calls:
        message["function_call"] = calls[0]["function"]
    return {**choice, "message": message, "finish_reason": _reason(choice["finish_reason"])}


class FunctionChunks(Chunks):
    """The chunks of a chat with its call as a `function_call`."""

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def opening(self) -> list[Chunk]:
        return _changed(self._chunks.opening())

    def take(self, number: int, update: TextDelta | Ended) -> list[Chunk]:
        return _changed(self._chunks.take(number, update))

    def closing(self) -> list[Chunk]:
        return _changed(self._chunks.closing())


def _changed(chunks: list[Chunk]) -> list[Chunk]:
    return [{**chunk, "choices": [_as_delta(choice) for choice in chunk["choices"]]} for chunk in chunks]


def _as_delta(choice: dict[str, Any]) -> dict[str, Any]:
    delta = dict(choice["delta"])
    calls = [call for call in delta.pop("tool_calls", ()) if not call["index"]]
    if calls:
        delta["function_call"] = calls[0]["function"]
    return {**choice, "delta": delta, "finish_reason": _reason(choice["finish_reason"])}


def _reason(reason: str | None) -> str | None:
    return "function_call" if reason == "tool_calls" else reason
