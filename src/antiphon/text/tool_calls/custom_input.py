"""`CustomInput`: the input of a custom tool, extracted from the arguments of its call while they stream."""

from __future__ import annotations

import re

from antiphon.text.tool_calls.json_text import JsonText

BEGIN = re.compile(r'\s*\{\s*"input"\s*:\s*"')


class CustomInput:
    """A parser of arguments that are `{"input": "..."}`, or else the input itself."""

    def __init__(self) -> None:
        self._held = ""
        self._text: JsonText | None = None
        self._is_plain = False

    def feed(self, arguments: str) -> str:
        """Read a part of the arguments and return the part of the input that it completes."""
        if self._is_plain:
            return arguments
        if self._text is not None:
            return self._text.feed(arguments)
        self._held += arguments
        found = BEGIN.match(self._held)
        if found is not None:
            self._text = JsonText()
            return self._text.feed(self._held[found.end() :])
        return "" if _may_begin(self._held) else self.finish()

    def finish(self) -> str:
        """Return the rest of the input when the arguments are complete."""
        if self._text is not None or self._is_plain:
            return ""
        self._is_plain = True
        return "" if self._held.strip() == "{}" else self._held


def _may_begin(text: str) -> bool:
    """Return whether more text could complete the beginning `{"input": "`."""
    return '{"input":"'.startswith("".join(text.split()))
