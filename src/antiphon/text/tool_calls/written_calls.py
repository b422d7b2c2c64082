"""Calls in a complete JSON value, in the shapes that models write."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

NAME_KEYS = ("name", "function", "tool", "tool_name")
ARGUMENTS_KEYS = ("arguments", "parameters")
#: Keys around one call or a list of calls.
WRAPPERS = ("tool_calls", "tool_call", "function_call", "function", "calls")
#: First keys of an object that may be a call.
FIRST_KEYS = frozenset({*NAME_KEYS, *ARGUMENTS_KEYS, *WRAPPERS, "type", "id"})
MAX_WRAPPERS = 4

Call = tuple[str, str]


def calls_in(value: Any, tools: Collection[str], custom: Collection[str] = (), depth: int = 0) -> list[Call]:
    """Return names and arguments as text if the whole value is calls of these tools, else an empty list.

    The arguments of a custom tool may be any string.
    """
    if depth > MAX_WRAPPERS:
        return []
    if isinstance(value, list):
        found = [calls_in(item, tools, custom, depth + 1) for item in value]
        return [call for calls in found for call in calls] if all(found) else []
    if not isinstance(value, dict):
        return []
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if name is None:
        inner = next((value[key] for key in WRAPPERS if isinstance(value.get(key), dict | list)), None)
        return calls_in(inner, tools, custom, depth + 1)
    keys = [key for key in ARGUMENTS_KEYS if key in value]
    if name not in tools or len(keys) != 1:
        return []
    arguments = arguments_text(value[keys[0]], name in custom)
    return [] if arguments is None else [(name, arguments)]


def arguments_text(value: Any, is_custom: bool = False) -> str | None:
    """Return the arguments as the text of a JSON object, or None if they are not an object."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        return value if is_custom or is_json_object(value) else None
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else None


def is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False
