"""Tool calls in their deprecated form, `function_call`."""

from __future__ import annotations

from antiphon.server.generation.text.wire_format import WireEvent


def as_function_call(choice: WireEvent) -> WireEvent:
    """Return the choice with its first tool call as a `function_call`."""
    message = dict(choice["message"])
    calls = message.pop("tool_calls", None)
    if calls:
        message["function_call"] = calls[0]["function"]
    return {**choice, "message": message, "finish_reason": _reason(choice["finish_reason"])}


def as_function_delta(choice: WireEvent) -> WireEvent:
    """Return the choice of a chunk with the delta of its first tool call as a `function_call`."""
    delta = dict(choice["delta"])
    calls = [call for call in delta.pop("tool_calls", ()) if not call["index"]]
    if calls:
        delta["function_call"] = calls[0]["function"]
    return {**choice, "delta": delta, "finish_reason": _reason(choice["finish_reason"])}


def _reason(reason: str | None) -> str | None:
    return "function_call" if reason == "tool_calls" else reason
