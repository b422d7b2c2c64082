"""Text before the JSON of a tool call: a tag, a code fence, both or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

FENCE = "```"
INFO = re.compile(r"[\w.-]*")


@dataclass(frozen=True)
class Opener:
    """The first `size` characters of a text. `is_open`: more text is needed. `is_none`: no JSON follows."""

    size: int
    has_tag: bool = False
    has_fence: bool = False
    is_open: bool = False
    is_none: bool = False


def read_opener(text: str, tag: str) -> Opener:
    """Read the tag and a code fence, each at most once, before the bracket of a JSON value."""
    position, has_tag, has_fence = 0, False, False
    while True:
        position += len(text[position:]) - len(text[position:].lstrip())
        rest = text[position:]
        begun = [mark for mark, is_read in ((tag, has_tag), (FENCE, has_fence)) if not is_read and mark != rest]
        if not rest or any(mark.startswith(rest) for mark in begun):
            return Opener(position, has_tag, has_fence, is_open=True)
        if rest[0] in "{[":
            return Opener(position, has_tag, has_fence)
        if tag and not has_tag and rest.startswith(tag):
            position, has_tag = position + len(tag), True
        elif not has_fence and rest.startswith(FENCE):
            info = INFO.match(rest, len(FENCE))
            end = len(FENCE) if info is None else info.end()
            if end == len(rest):
                return Opener(position, has_tag, True, is_open=True)
            position, has_fence = position + end, True
        else:
            return Opener(position, has_tag, has_fence, is_none=True)


def block_name(text: str) -> str:
    """Return the word between a fence and a line break, or ""."""
    found = INFO.match(text, len(FENCE)) if text.startswith(FENCE) else None
    return found.group() if found is not None and text[found.end() : found.end() + 1] == "\n" else ""
