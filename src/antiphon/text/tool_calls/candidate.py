"""`Candidate`: a JSON value in a model's output that may turn out to be one or several tool calls."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from antiphon.text.tool_calls.call_body import BLANKS, CallBody
from antiphon.text.tool_calls.json_span import JsonSpan
from antiphon.text.tool_calls.written_calls import FIRST_KEYS, Call, calls_in


@dataclass(frozen=True)
class CallableTools:
    """Names of the tools that may be called; `custom` tools take any text as input."""

    names: Collection[str] = frozenset()
    custom: Collection[str] = frozenset()


class Candidate:
    """A parser fed with the value's characters until it `is_done` or `is_rejected`.

    An object that names a tool `is_started` before it is complete, if it is tagged or `is_streamed`; then
    `take_arguments` returns its arguments as they arrive. Otherwise `calls` holds the calls once the value is complete
    and valid. A tagged object needs no arguments.
    """

    def __init__(self, tools: CallableTools, is_tagged: bool, is_streamed: bool) -> None:
        self._tools = tools
        self._is_tagged = is_tagged
        self._is_streamed = is_tagged or is_streamed
        self._span = JsonSpan()
        self._body = CallBody()
        self._raw: list[str] = []
        self._is_list = False
        self.is_started = False
        self.is_done = False
        self.is_rejected = False
        self.calls: list[Call] = []

    @property
    def raw(self) -> str:
        """All text fed so far that belongs to the value."""
        return "".join(self._raw)

    @property
    def name(self) -> str:
        return self._body.name or ""

    @property
    def has_begun(self) -> bool:
        """Whether the value has more than brackets and blanks."""
        return bool(self.raw.strip("{[" + BLANKS))

    def feed(self, text: str) -> str:
        """Read the text; return the rest after the end of the value, or from where the value broke."""
        if not self._raw:
            self._is_list = text.startswith("[")
        taken = text[: self._span.feed(text)]
        rest = self._feed_body(taken)
        if self.is_started and self._body.is_broken:
            taken = taken.removesuffix(rest)
        self._raw.append(taken)
        if self.is_started:
            self.is_done = self._span.is_over or self._body.is_broken
        elif self._span.is_broken or self._is_other():
            self.is_rejected = True
        elif self._span.is_done:
            self._complete()
        return text[len(taken) :]

    def _feed_body(self, text: str) -> str:
        """Feed the body parser. Of a list it parses only the first object, to reject lists without calls early."""
        body = self._body
        if self._is_list and not body.raw:
            text = text.lstrip("[" + BLANKS) if not self._raw else text.lstrip(BLANKS)
        if not text or body.is_done or body.is_broken:
            return ""
        rest = body.feed(text)
        if self._is_streamed and not self._is_list and not self.is_started and body.name in self._tools.names:
            is_call = body.has_arguments and body.first_key in FIRST_KEYS
            self.is_started = self._is_tagged or is_call  # also if the object breaks later in this text
        return rest

    def _is_other(self) -> bool:
        """Return whether the value can no longer become a call, so that it need not be held back."""
        body = self._body
        is_unknown = body.name is not None and body.name not in self._tools.names
        is_other = body.first_key is not None and body.first_key not in FIRST_KEYS
        return body.is_broken or is_unknown or (is_other and not self._is_tagged)

    def _complete(self) -> None:
        try:
            value = json.loads(self.raw, strict=False)
            self.calls = calls_in(value, self._tools.names, self._tools.custom)
        except (ValueError, RecursionError):
            pass
        body = self._body
        if self.calls and not self._is_list and body.name == self.calls[0][0]:
            self.calls = [(body.name, body.take_arguments())]  # as written, not re-encoded by `calls_in`
        self.is_done, self.is_rejected = bool(self.calls), not self.calls

    def take_arguments(self) -> str:
        return self._body.take_arguments()

    def cut_call(self) -> Call | None:
        """Return the call so far, for text that ended in the middle of it; None for a list or an unknown tool."""
        body = self._body
        if self._is_list or body.is_done or body.name is None or body.name not in self._tools.names:
            return None
        return body.name, body.take_arguments()
