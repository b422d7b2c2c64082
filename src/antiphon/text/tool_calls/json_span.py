"""`JsonSpan`: finds the end of a JSON object or list while it streams."""

from __future__ import annotations

import re

MARKS = re.compile(r'["\\{}\[\]]')
QUOTED = re.compile(r'["\\]')
CLOSERS = {"{": "}", "[": "]"}
MAX_DEPTH = 200


class JsonSpan:
    """A scanner fed from the opening bracket on. A mismatched bracket, or too deep a nesting, sets `is_broken`."""

    def __init__(self) -> None:
        self.is_done = False
        self.is_broken = False
        self._closers: list[str] = []
        self._in_string = False
        self._is_escaped = False

    @property
    def is_over(self) -> bool:
        return self.is_done or self.is_broken

    def feed(self, text: str) -> int:
        """Read the text; return how many of its characters belong to the value, without a bracket that breaks it."""
        position = 0
        while position < len(text) and not self.is_over:
            if self._is_escaped:
                self._is_escaped = False
                position += 1
                continue
            found = (QUOTED if self._in_string else MARKS).search(text, position)
            if found is None:
                return len(text)
            position = found.start()
            self._take(found.group())
            position += not self.is_broken
        return position

    def _take(self, mark: str) -> None:
        if self._in_string:
            self._is_escaped = mark == "\\"
            self._in_string = self._is_escaped
        elif mark == '"':
            self._in_string = True
        elif mark in CLOSERS and len(self._closers) < MAX_DEPTH:
            self._closers.append(CLOSERS[mark])
        elif self._closers and mark == self._closers[-1]:
            self._closers.pop()
            self.is_done = not self._closers
        else:
            self.is_broken = True
