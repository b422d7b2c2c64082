"""`CallBody`: the JSON object of a tool call, parsed while it streams."""

from __future__ import annotations

import json

from antiphon.text.tool_calls.json_span import JsonSpan
from antiphon.text.tool_calls.written_calls import ARGUMENTS_KEYS

BLANKS = " \t\r\n"


class CallBody:
    """A parser that finds the call's `name` and the text of its arguments before the object is complete.

    The arguments are the value of `arguments` or `parameters`, unwrapped if they are written as a JSON string.
    `is_broken` is set when the text can no longer become such an object.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self.is_done = False
        self.is_broken = False
        self._raw: list[str] = []
        self._phase = "open"
        self.first_key: str | None = None
        self._key = ""
        self._seen: set[str] = set()
        self._value: list[str] = []
        self._container = JsonSpan()
        self._is_escaped = False
        self._arguments: list[str] = []

    @property
    def raw(self) -> str:
        return "".join(self._raw)

    @property
    def has_arguments(self) -> bool:
        return not self._seen.isdisjoint(ARGUMENTS_KEYS)

    def take_arguments(self) -> str:
        """Return the part of the arguments read since the last call of this method."""
        text = "".join(self._arguments)
        self._arguments.clear()
        return text

    def feed(self, text: str) -> str:
        """Read the text; return the rest after the end of the object, or from the character that broke it."""
        for position, character in enumerate(text):
            if self.is_done or self.is_broken:
                self._raw.append(text[:position])
                return text[position:]
            self._take(character)
        self._raw.append(text)
        return ""

    def _take(self, character: str) -> None:
        phase = self._phase
        if phase == "container":
            self._in_container(character)
        elif phase in ("key", "string"):
            self._in_quotes(character)
        elif phase == "scalar" and character not in ",}" + BLANKS:
            self._value.append(character)
        elif phase == "scalar":
            self._end_value("".join(self._value))
            self._take(character)
        elif character in BLANKS:
            pass
        elif phase == "open" and character == "{":
            self._phase = "before key"
        elif phase == "before key" and character == '"':
            self._phase, self._value = "key", [character]
        elif phase == "colon" and character == ":":
            self._phase = "before value"
        elif phase == "before value" and character not in ",}]:":
            self._begin_value(character)
        elif phase == "after" and character == ",":
            self._phase = "before key"
        elif phase == "after" and character == "}":
            self.is_done = True
            if not self.has_arguments:
                self._arguments.append("{}")
        else:
            self.is_broken = True

    def _begin_value(self, character: str) -> None:
        self._value = [character]
        if character in "{[":
            self._phase, self._container = "container", JsonSpan()
            self._container.feed(character)
            if self._is_arguments:
                self._arguments.append(character)
        else:
            self._phase = "string" if character == '"' else "scalar"

    @property
    def _is_arguments(self) -> bool:
        return self._key in ARGUMENTS_KEYS

    def _in_container(self, character: str) -> None:
        if self._is_arguments:
            self._arguments.append(character)
        self._container.feed(character)
        if self._container.is_over:
            self.is_broken = self._container.is_broken or self._key == "name"
            self._phase = "after"

    def _in_quotes(self, character: str) -> None:
        self._value.append(character)
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._end_string()

    def _end_string(self) -> None:
        try:
            text = json.loads("".join(self._value), strict=False)
        except ValueError:
            self.is_broken = True
            return
        if self._phase == "string":
            self._end_value(text, is_string=True)
            return
        self._key, self._phase = text, "colon"
        is_second = self.has_arguments if text in ARGUMENTS_KEYS else text in self._seen
        self.is_broken = is_second and text in ("name", *ARGUMENTS_KEYS)
        self._seen.add(text)
        self.first_key = text if self.first_key is None else self.first_key

    def _end_value(self, text: str, is_string: bool = False) -> None:
        self._phase = "after"
        if self._key == "name":
            self.name = text if is_string else None
            self.is_broken = not is_string
        elif self._is_arguments:
            self._arguments.append(text if is_string else "{}" if text == "null" else text)
