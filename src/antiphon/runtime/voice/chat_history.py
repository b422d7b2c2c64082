"""Items of a voice conversation as chat messages, and as many of them as a model's context holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from antiphon.runtime.voice.items import FunctionCall, FunctionOutput, Item, Message, Role

Chat = TypeVar("Chat")
#: Tokens reserved for an answer, but at most half of the context.
ANSWER_TOKENS = 256


def chat_messages(items: Sequence[Item], instructions: str) -> list[dict[str, Any]]:
    """Convert items to chat messages. Messages without text are left out; adjacent calls are one message."""
    messages: list[dict[str, Any]] = []
    if instructions:
        messages.append({"role": "system", "content": instructions})
    for item in items:
        if isinstance(item, FunctionOutput):
            messages.append({"role": "tool", "content": item.output, "tool_call_id": item.call_id})
        elif isinstance(item, FunctionCall):
            _add_call(messages, item)
        elif isinstance(item, Message) and item.text:
            role = {Role.USER: "user", Role.ASSISTANT: "assistant", Role.SYSTEM: "system"}[item.role]
            messages.append({"role": role, "content": item.text})
    return messages or [{"role": "user", "content": ""}]


def _add_call(messages: list[dict[str, Any]], item: FunctionCall) -> None:
    function = {"name": item.name, "arguments": item.arguments}
    call = {"id": item.call_id, "type": "function", "function": function}
    if messages and messages[-1]["role"] == "assistant":
        messages[-1].setdefault("tool_calls", []).append(call)
    else:
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})


def room_for_answer(max_tokens: int | None, context_tokens: int) -> int:
    """Return the tokens of the context that a prompt must leave free."""
    return min(max_tokens or ANSWER_TOKENS, ANSWER_TOKENS, context_tokens // 2)


async def longest_fitting(
    items: Sequence[Item], prepare: Callable[[Sequence[Item]], Awaitable[Chat | None]]
) -> Chat | None:
    """Leave out as few of the oldest turns as needed for `prepare` to succeed; return its result or None.

    `prepare` returns None for items that do not fit. The last turn and system messages always stay.
    """
    found = await prepare(items)
    if found is not None:
        return found
    turns = turn_starts(items)
    low, high, best = 0, len(turns), None
    while low < high:
        middle = (low + high) // 2
        found = await prepare(items_from(items, turns[middle]))
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best


def last_turn(items: Sequence[Item]) -> list[Item]:
    """Return the items of the last turn, and the system messages before it."""
    turns = turn_starts(items)
    return items_from(items, turns[-1] if turns else 0)


def turn_starts(items: Sequence[Item]) -> list[int]:
    """Return the indices of the user's messages, at which turns begin, except index 0."""
    return [index for index, item in enumerate(items) if index and isinstance(item, Message) and item.role is Role.USER]


def items_from(items: Sequence[Item], start: int) -> list[Item]:
    """Return the items from `start` on, after the system messages among the earlier ones."""
    kept = [item for item in items[:start] if isinstance(item, Message) and item.role is Role.SYSTEM]
    return [*kept, *items[start:]]
