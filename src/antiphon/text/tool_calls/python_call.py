"""Calls that Llama writes as code: `weather.call(city="Oslo", days=3)`."""

from __future__ import annotations

import ast
import json
from collections.abc import Collection

MAX_CHARACTERS = 65_536


def python_call(text: str, tools: Collection[str]) -> tuple[str, str] | None:
    """Return the tool's name and its arguments as JSON, or None if the text is not exactly one such call.

    The code is parsed, never executed.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or call.args:
            return None
        function = call.func
        if not (
            isinstance(function, ast.Attribute) and function.attr == "call" and isinstance(function.value, ast.Name)
        ):
            return None
        arguments = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        written = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    name = function.value.id
    return (name, written) if name in tools and None not in arguments else None
