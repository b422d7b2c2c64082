"""`UnspokenCalls`: removes text written for programs from a spoken answer: tool calls, tool lists and their tags."""

from __future__ import annotations

import re

from antiphon.text.tool_calls.forms import HERMES, LLAMA
from antiphon.text.tool_calls.json_span import JsonSpan
from antiphon.text.tool_calls.openers import FENCE, INFO
from antiphon.text.tool_calls.written_calls import ARGUMENTS_KEYS, FIRST_KEYS

#: Closing tags by opening tag; a call with the closing tag "" ends with the answer.
TAGS = {
    HERMES.tag: HERMES.end,
    LLAMA.tag: LLAMA.end,
    "<function_call>": "</function_call>",
    "<tools>": "</tools>",
    "[TOOL_CALLS]": "",
}
_CLOSERS = tuple(end for end in TAGS.values() if end)
_MARKS = (*TAGS, *_CLOSERS, FENCE)
_BRACKETS = "{["
_BLANKS = " \t\r\n"
#: The first key of an object, possibly inside lists or objects, or the part of the key so far.
_FIRST_KEY = re.compile(r"""[\[{\s]*\{\s*(?:["'](?P<key>[^"'\n]{0,64})(?P<end>["'])?)?""")
_QUOTED = re.compile(r"""["']([^"'\n]{1,64})["']""")


class UnspokenCalls:
    """A filter fed with an answer's text as it streams; it returns the text to speak.

    Text is held back only while it may be markup: from a bracket, a tag or a fence on. `tools` are the names that the
    session knows; a call of any other name is removed too.
    """

    def __init__(self, tools: frozenset[str] = frozenset()) -> None:
        self._tools = tools
        self._buffer = ""
        self._closer: str | None = None  # inside a tag: the tag that ends it
        self._in_fence = False  # inside a fence whose JSON was removed
        self._follows_call = False

    def feed(self, text: str) -> str:
        self._buffer += text
        return self._read(is_last=False)

    def finish(self) -> str:
        """Return the remaining text at the end of a message, and reset the filter."""
        rest = self._read(is_last=True)
        self._buffer, self._closer, self._in_fence, self._follows_call = "", None, False, False
        return rest

    def _read(self, is_last: bool) -> str:
        out: list[str] = []
        while self._buffer:
            before = len(self._buffer)
            text = self._step(is_last)
            if text:
                out.append(text)
            if len(self._buffer) == before:
                break
        return "".join(out)

    def _step(self, is_last: bool) -> str:
        """Take a part of the buffer and return its spoken text; take nothing if more text is needed."""
        if self._closer is not None:
            return self._skip_tagged(is_last)
        if self._follows_call:
            self._buffer = self._buffer.lstrip(",;}]" + _BLANKS)
            self._follows_call = not self._buffer
            if not self._buffer:
                return ""
        is_part = any(mark.startswith(self._buffer) and mark != self._buffer for mark in _MARKS)
        if is_part and (len(self._buffer) > 1 or not is_last):
            self._buffer = "" if is_last else self._buffer
            return ""
        at = self._next_mark(is_last)
        if at:
            return self._take(at)
        for tag, closer in TAGS.items():
            if self._buffer.startswith(tag):
                self._take(len(tag))
                self._closer = closer
                return ""
        for closer in _CLOSERS:
            if self._buffer.startswith(closer):
                self._take(len(closer))
                self._follows_call = True
                return ""
        if self._buffer.startswith(FENCE):
            return self._fence(is_last)
        return self._value(0, is_last)

    def _next_mark(self, is_last: bool) -> int:
        """Return the number of characters before the next tag, fence or bracket, complete or not."""
        text = self._buffer
        positions = [at for mark in (*_MARKS, *_BRACKETS) if (at := text.find(mark)) >= 0]
        end = min(positions, default=len(text))
        if not is_last:
            for size in range(1, min(len(text) + 1, max(map(len, _MARKS)))):
                if any(mark.startswith(text[-size:]) for mark in _MARKS if len(mark) > size):
                    end = min(end, len(text) - size)
        return end

    def _skip_tagged(self, is_last: bool) -> str:
        """Drop a JSON value inside a tag, or else all text up to the closing tag."""
        self._buffer = self._buffer.lstrip()
        if self._buffer[:1] and self._buffer[0] in _BRACKETS:
            span = JsonSpan()
            size = span.feed(self._buffer)
            if span.is_over:
                self._take(size)
                self._closer, self._follows_call = None, True
            elif is_last:
                self._buffer = ""
            return ""
        closer = self._closer or ""
        at = self._buffer.find(closer) if closer else -1
        if at >= 0:
            self._take(at + len(closer))
            self._closer, self._follows_call = None, True
        elif is_last or not closer:
            self._buffer = ""
        return ""

    def _fence(self, is_last: bool) -> str:
        """Drop a fence together with JSON that is a call; pass on any other fence."""
        if self._in_fence:
            self._take(len(FENCE))
            self._in_fence, self._follows_call = False, True
            return ""
        info = INFO.match(self._buffer, len(FENCE))
        start = len(FENCE) if info is None else info.end()
        start += len(self._buffer[start:]) - len(self._buffer[start:].lstrip())
        if start == len(self._buffer) and not is_last:
            return ""
        if self._buffer[start : start + 1] and self._buffer[start] in _BRACKETS:
            return self._value(start, is_last)
        return self._take(start)

    def _value(self, start: int, is_last: bool) -> str:
        """Read a JSON value at `start`, which follows a fence if it is not 0: drop a call, pass on anything else."""
        text = self._buffer[start:]
        may_be = self._may_be_call(text)
        if may_be is None and not is_last:
            return ""
        if may_be is False:
            return self._take(start + 1)
        span = JsonSpan()
        size = span.feed(text)
        if not (span.is_over or is_last):
            return ""
        if not self._is_call(text[:size], is_cut=not span.is_done):
            return self._take(start + 1)
        self._take(start + size)
        self._in_fence, self._follows_call = start > 0, True
        return ""

    def _may_be_call(self, text: str) -> bool | None:
        """Return whether the value can be a call, or None if more text is needed."""
        found = _FIRST_KEY.match(text)
        if found is None:
            return None if not text.strip(_BRACKETS + _BLANKS) else False
        if found["end"] is None:
            if found.end() < len(text):
                return False  # not a key
            key = found["key"] or ""
            return None if any(known.startswith(key) for known in (*FIRST_KEYS, *self._tools)) else False
        return found["key"] in FIRST_KEYS or found["key"] in self._tools

    def _is_call(self, text: str, is_cut: bool) -> bool:
        """Return whether a value that begins like a call is a call or a tool definition; True if it is cut off."""
        words = set(_QUOTED.findall(text))
        return is_cut or not words.isdisjoint((*ARGUMENTS_KEYS, *self._tools, "function_call", "tool_calls"))

    def _take(self, size: int) -> str:
        text, self._buffer = self._buffer[:size], self._buffer[size:]
        return text
