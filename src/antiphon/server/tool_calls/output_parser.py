"""Splits the output of a model into reasoning, content and tool calls while it streams.

Tool calls are in one of the forms of `tool_forms`. Small models often leave the tags out, so an answer that begins with
the object of a call, for a known tool, is a call as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.server.tool_calls.call_body import CallBody
from antiphon.server.tool_calls.forms import HERMES, LLAMA, ToolForm
from antiphon.server.tool_calls.python_call import python_call

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class Content:
    text: str


@dataclass(frozen=True)
class Reasoning:
    text: str


@dataclass(frozen=True)
class CallStart:
    """The `index`-th call of the answer begins."""

    index: int
    name: str


@dataclass(frozen=True)
class CallArguments:
    index: int
    text: str


Piece = Content | Reasoning | CallStart | CallArguments


class OutputParser:
    """The result does not depend on how the text is divided into deltas. A call of an unknown tool stays content.

    `tools` are the names that may be called; without any, calls are not looked for. `reasoning` looks for a leading
    `<think>`; `in_reasoning` says that the prompt has already opened it. With `is_single`, the first call is the last
    piece.
    """

    def __init__(
        self,
        tools: frozenset[str] = frozenset(),
        reasoning: bool = False,
        in_reasoning: bool = False,
        form: ToolForm = HERMES,
        is_single: bool = False,
    ) -> None:
        self._tools = tools
        self._form = form
        self._is_single = is_single
        self._mode = "reasoning" if in_reasoning else "start" if reasoning else "content"
        self._buffer = ""
        self._skip_space = in_reasoning
        self._space = ""  # blanks before a call, content only if it turns out not to be one
        self._tag = ""  # what the current call began with: the tag, or nothing
        self._may_be_bare = True  # only calls so far
        self._body = CallBody(form.arguments_key)
        self._is_started = False
        self.num_calls = 0

    def feed(self, text: str) -> list[Piece]:
        """The pieces that the text completes; up to a tag's length of it may be held back."""
        self._buffer += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        return pieces

    def finish(self) -> list[Piece]:
        """The remaining pieces, at the end of the text."""
        pieces: list[Piece] = []
        rest, self._buffer = self._buffer, ""
        if self._mode == "call" and not self._is_started:
            pieces.append(Content(self._space + self._tag + self._body.raw + rest))
        elif self._mode == "reasoning":
            rest = rest.rstrip()
            pieces += [Reasoning(rest)] if rest else []
        elif self._mode == "tag":
            pieces.append(Content(self._space + self._tag + rest))
        elif self._mode == "code":
            pieces += self._code(rest)
        elif self._mode in ("start", "content"):
            rest = rest.lstrip() if self._skip_space else rest
            pieces += [Content(rest)] if rest else []
        self._mode = "ended"
        return pieces

    def _step(self, pieces: list[Piece]) -> bool:
        """Consume a part of the buffer; False when more text is needed."""
        if self._skip_space and self._mode in ("reasoning", "content"):
            self._buffer = self._buffer.lstrip()
            self._skip_space = not self._buffer
        if self._mode == "start":
            return self._start()
        if self._mode == "reasoning":
            return self._reasoning(pieces)
        if self._mode == "content":
            return self._content(pieces)
        if self._mode == "tag":
            return self._after_tag()
        if self._mode == "call":
            return self._call(pieces)
        return self._end_of_call() if self._mode == "end of call" else False

    def _start(self) -> bool:
        text = self._buffer.lstrip()
        if text.startswith(THINK):
            self._mode, self._buffer, self._skip_space = "reasoning", text[len(THINK) :], True
            return True
        if THINK.startswith(text):
            return False
        self._mode = "content"
        return True

    def _reasoning(self, pieces: list[Piece]) -> bool:
        text, found = self._until(END_THINK)
        if text:
            pieces.append(Reasoning(text))
        if found:
            self._buffer = self._buffer.lstrip()[len(END_THINK) :]
            self._mode, self._skip_space = "content", True
        return found

    def _content(self, pieces: list[Piece]) -> bool:
        if not self._tools:
            if self._buffer:
                pieces.append(Content(self._buffer))
                self._buffer = ""
            return False
        if self._may_be_bare and self._buffer.lstrip().startswith("{"):
            self._begin_call("", self._buffer.index("{"))
            return True
        tag = self._form.tag
        text, found = self._until(tag)
        if text:
            pieces.append(Content(text))
            self._may_be_bare = False
        if found:
            self._begin_call(tag, self._buffer.index(tag))
        return found

    def _begin_call(self, tag: str, at: int) -> None:
        self._space, self._buffer = self._buffer[:at], self._buffer[at + len(tag) :]
        self._tag, self._body, self._is_started = tag, CallBody(self._form.arguments_key), False
        self._mode = "tag" if tag and self._form is LLAMA else "call"

    def _after_tag(self) -> bool:
        """After Llama's tag comes an object, or code that runs to the end of the answer."""
        if not self._buffer.strip():
            return False
        self._mode = "call" if self._buffer.lstrip().startswith("{") else "code"
        return True

    def _code(self, text: str) -> list[Piece]:
        """Code is a call if it has the form `name.call(key=value, ...)`; that is known only at the end."""
        found = python_call(text, self._tools)
        if found is None:
            return [Content(self._space + self._tag + text)]
        index = self.num_calls
        self.num_calls += 1
        return [CallStart(index, found[0]), CallArguments(index, found[1])]

    def _until(self, tag: str) -> tuple[str, bool]:
        """The text before the tag, without blanks at its end, and whether the tag is there. Both stay in the buffer."""
        at = self._buffer.find(tag)
        found = at >= 0
        if not found:
            at = len(self._buffer)
            for size in range(min(len(tag) - 1, at), 0, -1):
                if self._buffer.endswith(tag[:size]):
                    at -= size
                    break
        text = self._buffer[:at].rstrip()
        self._buffer = self._buffer[len(text) :]
        return text, found

    def _call(self, pieces: list[Piece]) -> bool:
        body = self._body
        text, self._buffer = self._buffer, ""
        rest = body.feed(text)
        is_known = body.name in self._tools
        if not self._is_started and is_known and (self._tag or (body.has_arguments and not self._is_other_object())):
            self._is_started = True
            pieces.append(CallStart(self.num_calls, str(body.name)))
            self.num_calls += 1
        if self._is_started:
            arguments = body.take_arguments()
            if arguments:
                pieces.append(CallArguments(self.num_calls - 1, arguments))
        elif body.is_broken or body.is_done or (body.name is not None and not is_known) or self._is_other_object():
            before = self._space + self._tag
            pieces += [Content(before)] if before else []
            self._mode, self._buffer, self._may_be_bare = "content", body.raw + rest, False
            return True
        if body.is_done or body.is_broken:
            self._mode, self._buffer = "end of call" if self._tag or self._form is LLAMA else "content", rest
            self._skip_space = True
            if self._is_single:
                self._mode = "ended"
            return True
        return False

    def _is_other_object(self) -> bool:
        """Whether an object without the tag cannot be a call, by its first key, so that it need not be held back."""
        return not self._tag and self._body.first_key not in (None, *self._form.first_keys)

    def _end_of_call(self) -> bool:
        end = self._form.end
        if not end:
            return self._semicolon()
        at = self._buffer.find(end)
        if at < 0:
            return False
        self._mode, self._buffer, self._skip_space = "content", self._buffer[at + len(end) :], True
        return True

    def _semicolon(self) -> bool:
        """Between two calls of Llama's form."""
        text = self._buffer.lstrip()
        if not text:
            return False
        self._mode, self._buffer, self._skip_space = "content", text.removeprefix(";"), True
        return True
