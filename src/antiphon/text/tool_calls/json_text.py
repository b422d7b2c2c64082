"""`JsonText`: a JSON string, decoded while it streams."""

from __future__ import annotations

import json
import re

#: A run of plain characters, a surrogate pair, an escape, or a backslash without an escape.
UNIT = re.compile(
    r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]|\\'
)
#: An incomplete escape or surrogate pair at the end of the text.
OPEN = re.compile(r"\\(u[0-9a-fA-F]{0,3})?$|\\u[dD][89abAB][0-9a-fA-F]{2}(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?$")


class JsonText:
    """A decoder of a JSON string, fed with the text after the opening quote."""

    def __init__(self) -> None:
        self._held = ""
        self.is_done = False

    def feed(self, text: str) -> str:
        """Return the characters that the text completes, and drop any text after the closing quote."""
        held, position, made = self._held + text, 0, []
        while position < len(held) and not self.is_done and not OPEN.match(held, position):
            found = UNIT.match(held, position)
            if found is None:
                self.is_done = True
                break
            made.append(_decoded(found.group()))
            position = found.end()
        self._held = held[position:]
        return "".join(made)


def _decoded(unit: str) -> str:
    """Decode a match of `UNIT`: U+FFFD for half a surrogate pair, and a lone backslash as it is."""
    if unit[0] != "\\" or unit == "\\":
        return unit
    text = str(json.loads(f'"{unit}"'))
    return "\N{REPLACEMENT CHARACTER}" if "\ud800" <= text <= "\udfff" else text
