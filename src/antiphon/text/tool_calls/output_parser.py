"""Splitting of a model's output into reasoning, content and tool calls while it streams.

Tool calls are in one of the forms of `forms`. Small models often leave out the tags or write a code fence instead, so a
JSON value that is a call of a known tool counts as a call anywhere except in code and in other JSON.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.text.reasoning import THINK
from antiphon.text.tool_calls.call_body import BLANKS
from antiphon.text.tool_calls.candidate import CallableTools, Candidate
from antiphon.text.tool_calls.custom_input import CustomInput
from antiphon.text.tool_calls.forms import HERMES, LLAMA, ToolForm
from antiphon.text.tool_calls.json_span import JsonSpan
from antiphon.text.tool_calls.json_text import JsonText
from antiphon.text.tool_calls.openers import FENCE, block_name, read_opener
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content, Piece, Reasoning
from antiphon.text.tool_calls.python_call import python_call

__all__ = ["THINK", "CallArguments", "CallStart", "Content", "OutputParser", "Piece", "Reasoning"]

END_THINK = "</think>"
#: Characters skipped between and after calls: separators, blanks, and superfluous brackets.
AFTER_CALL = ",;}]" + BLANKS


class OutputParser:
    """A streaming parser whose result does not depend on how the text is split into deltas.

    Text that is not a call of a known tool stays content. `tools` are the names that may be called; if empty, the
    parser finds no calls. Arguments of tools in `custom` may be any text. `reasoning` looks for a leading `<think>`;
    `in_reasoning` says that the prompt has already opened it. With `is_single`, the first call is the last piece. If a
    call `is_required`, no part of it becomes content.
    """

    def __init__(
        self,
        tools: frozenset[str] = frozenset(),
        reasoning: bool = False,
        in_reasoning: bool = False,
        form: ToolForm = HERMES,
        is_single: bool = False,
        custom: frozenset[str] = frozenset(),
        is_required: bool = False,
    ) -> None:
        self._tools = CallableTools(tools, custom)
        self._form = form
        self._is_single = is_single
        self._is_required = is_required
        self._mode = "reasoning" if in_reasoning else "start" if reasoning else "content"
        self._buffer = ""
        self._skip_space = in_reasoning
        self._space = ""  # blanks before a value, which are content unless it becomes a call
        self._opener = ""  # tag and fence before the current value, or ""
        self._candidate = Candidate(self._tools, False, False)
        self._span: JsonSpan | None = None  # a JSON value that is content, if inside one
        self._in_code = False  # between fences of code that is content
        self._in_fence = False  # between fences around calls
        self._is_first = True  # only calls and blanks so far
        self._wrapped = JsonText()
        self._is_custom = False  # whether the last call is of a custom tool
        self._input: CustomInput | None = None
        self._last = ""  # the last character of content
        self.num_calls = 0

    @property
    def is_ended(self) -> bool:
        """Whether the parser discards further text, because the only call is complete."""
        return self._mode == "ended"

    @property
    def is_transparent(self) -> bool:
        """Whether all further text is content without changes, so that callers need not feed it."""
        return self._mode == "content" and not (self._tools.names or self._skip_space or self._buffer)

    def feed(self, text: str) -> list[Piece]:
        """Return the pieces that the text completes; hold back text that may become a call."""
        self._buffer += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        return pieces

    def finish(self, is_cut: bool = False) -> list[Piece]:
        """Return the remaining pieces at the end of the text.

        If the text `is_cut` at the token limit, an incomplete call is not content: it is returned with its arguments so
        far if its tool is known, and left out otherwise.
        """
        pieces: list[Piece] = []
        rest, self._buffer = self._buffer, ""
        if self._mode == "call":
            pieces += self._rest_of_call(is_cut)
        elif self._mode == "reasoning":
            rest = rest.rstrip()
            pieces += [Reasoning(rest)] if rest else []
        elif self._mode == "opener":
            is_tag = bool(self._form.tag) and self._form.tag in rest
            pieces += [] if is_cut and is_tag else self._text(self._space + rest)
        elif self._mode == "code":
            pieces += self._code(rest)
        elif self._mode == "block":
            pieces += self._arguments(rest)
        elif self._mode in ("start", "content"):
            rest = rest.lstrip() if self._skip_space else rest
            pieces += self._text(self._without_cut_tag(rest) if is_cut else rest)
        self._mode = "ended" if self.is_ended else "finished"
        return pieces

    def _rest_of_call(self, is_cut: bool) -> list[Piece]:
        candidate = self._candidate
        if candidate.is_started:
            return []
        call = candidate.cut_call() if is_cut else None
        if call is not None:
            return self._whole_call(*call)
        if is_cut and (self._opener or candidate.has_begun or self._is_required):
            return []
        return self._text(self._space + self._opener + candidate.raw)

    def _without_cut_tag(self, text: str) -> str:
        """Return the text without an incomplete tag at its end: at least half a tag, or any part if a call is due."""
        tag, opener = self._form.tag, self._form.text_opener
        if self._is_first and text and opener.startswith(text):
            return ""
        for size in range(len(tag) - 1, 0 if self._is_required else len(tag) // 2, -1):
            if text.endswith(tag[:size]):
                return text[:-size].rstrip()
        return text

    def _step(self, pieces: list[Piece]) -> bool:
        """Consume a part of the buffer; return False when more text is needed."""
        if self._skip_space and self._mode in ("reasoning", "content"):
            self._buffer = self._buffer.lstrip()
            self._skip_space = not self._buffer
        if self._mode == "start":
            return self._start()
        if self._mode == "reasoning":
            return self._reasoning(pieces)
        if self._mode == "content":
            return self._content(pieces)
        if self._mode == "opener":
            return self._open(pieces)
        if self._mode == "call":
            return self._call(pieces)
        if self._mode == "wrapped text":
            pieces += self._text(self._wrapped.feed(self._take(len(self._buffer))))
            return False
        if self._mode == "block":
            return self._block(pieces)
        return self._after_call() if self._mode == "after call" else False

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
        at = self._buffer.find(END_THINK)
        found = at >= 0
        if not found:
            at = len(self._buffer) - _overlap(self._buffer, END_THINK)
        text = self._buffer[:at].rstrip()
        self._buffer = self._buffer[len(text) :]
        if text:
            pieces.append(Reasoning(text))
        if found:
            self._buffer = self._buffer.lstrip()[len(END_THINK) :]
            self._mode, self._skip_space = "content", True
        return found

    def _content(self, pieces: list[Piece]) -> bool:
        """Pass on content up to where a call may begin."""
        if not self._tools.names:
            pieces += self._text(self._take(len(self._buffer)))
            return False
        if self._span is not None:
            return self._json_content(self._span, pieces)
        opener = self._form.text_opener
        if opener and self._is_first and not self.num_calls and opener.startswith(self._buffer[: len(opener)]):
            if len(self._buffer) >= len(opener):
                self._take(len(opener))
                self._mode = "wrapped text"
            return self._mode == "wrapped text"
        tag = self._form.tag
        starters = [*([tag] if tag else []), FENCE, *(() if self._in_code else ("{", "["))]
        at, starter = _first(self._buffer, starters)
        text = self._take(len(self._buffer[:at].rstrip()))
        pieces += self._text(text)
        if not starter:
            return False
        at -= len(text)
        if starter == FENCE and self._in_code:
            pieces += self._text(self._take(at + len(FENCE)))
            self._in_code = False
        elif starter in ("{", "[") and (self._buffer[:at] or self._last)[-1:] == "`":
            pieces += self._text(self._take(at))
            self._span = JsonSpan()
        else:
            self._space, self._mode = self._take(at), "opener"
        return True

    def _json_content(self, span: JsonSpan, pieces: list[Piece]) -> bool:
        """Pass on JSON that is content, ignoring calls inside it, up to its end, a tag, a fence or an empty line."""
        tag = self._form.tag
        at, starter = _first(self._buffer, [*([tag] if tag else []), FENCE, "\n\n"])
        text = self._buffer[: len(self._buffer[:at].rstrip())]
        pieces += self._text(self._take(span.feed(text)))
        if span.is_over or starter:
            self._span = None
            return True
        return False

    def _open(self, pieces: list[Piece]) -> bool:
        tag = self._form.tag
        opener = read_opener(self._buffer, tag)
        if opener.is_open:
            return False
        name = block_name(self._buffer)
        if name in self._tools.custom:
            self._take(len(FENCE) + len(name) + 1)
            pieces += self._begin(name)
            self._input = None  # the block is not JSON
            self._mode = "block"
        elif not opener.is_none:
            self._opener = self._take(opener.size)
            self._in_fence = self._in_fence or opener.has_fence
            is_streamed = self._form.is_bare and self._is_first and not self._opener
            self._candidate = Candidate(self._tools, opener.has_tag, is_streamed)
            self._mode = "call"
        elif opener.has_tag and not opener.has_fence and self._form is LLAMA:
            self._mode = "code"
        else:
            is_tag = bool(tag) and self._buffer.startswith(tag)
            pieces += self._text(self._space + self._take(len(tag) if is_tag else len(FENCE)))
            self._in_code = self._in_code or not is_tag
            self._mode = "content"
        return True

    def _call(self, pieces: list[Piece]) -> bool:
        candidate = self._candidate
        was_started = candidate.is_started
        self._buffer = candidate.feed(self._take(len(self._buffer)))
        if candidate.is_rejected:
            pieces += self._text(self._space + self._opener)
            self._buffer = candidate.raw + self._buffer
            self._in_code, self._in_fence = self._in_code or self._in_fence, False
            self._span = None if self._in_code else JsonSpan()
            self._mode = "content"
            return True
        if candidate.is_started:
            pieces += [] if was_started else self._begin(candidate.name)
            pieces += self._arguments(candidate.take_arguments(), is_last=candidate.is_done)
        for name, arguments in candidate.calls[: 1 if self._is_single else None]:
            pieces += self._whole_call(name, arguments)
        if candidate.is_done:
            self._mode = "ended" if self._is_single else "after call"
        return candidate.is_done

    def _block(self, pieces: list[Piece]) -> bool:
        """Pass on the input of a custom tool up to the closing fence."""
        at, closer = _first(self._buffer, ["\n" + FENCE])
        pieces += self._arguments(self._take(at))
        if closer:
            self._take(len(closer))
            self._mode = "ended" if self._is_single else "after call"
        return bool(closer)

    def _whole_call(self, name: str, arguments: str) -> list[Piece]:
        return [*self._begin(name), *self._arguments(arguments, is_last=True)]

    def _begin(self, name: str) -> list[Piece]:
        self._is_custom = name in self._tools.custom
        self._input = CustomInput() if self._is_custom else None
        self.num_calls += 1
        return [CallStart(self.num_calls - 1, name, self._is_custom)]

    def _arguments(self, text: str, is_last: bool = False) -> list[Piece]:
        if self._input is not None:
            text = self._input.feed(text) + (self._input.finish() if is_last else "")
        return [CallArguments(self.num_calls - 1, text, self._is_custom)] if text else []

    def _after_call(self) -> bool:
        """Skip text that closes or separates calls."""
        self._buffer = self._buffer.lstrip(AFTER_CALL)
        closers = [closer for closer in (self._form.end, FENCE if self._in_fence else "") if closer]
        if not self._buffer:
            return False
        for closer in closers:
            if self._buffer.startswith(closer):
                self._take(len(closer))
                self._in_fence = self._in_fence and closer != FENCE
                return True
        if any(closer.startswith(self._buffer) for closer in closers):
            return False
        if self._in_fence and self._buffer[0] in "{[":
            self._mode, self._space = "opener", ""
            return True
        self._in_code, self._in_fence = self._in_code or self._in_fence, False
        self._mode, self._skip_space = "content", True
        return True

    def _code(self, text: str) -> list[Piece]:
        """Parse code after Llama's tag: a call if the whole text is `name.call(key=value, ...)`, else content."""
        found = python_call(text.lstrip().removeprefix(self._form.tag), self._tools.names)
        return self._text(self._space + text) if found is None else self._whole_call(*found)

    def _take(self, size: int) -> str:
        text, self._buffer = self._buffer[:size], self._buffer[size:]
        return text

    def _text(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._last, self._is_first = text[-1], self._is_first and not text.strip()
        return [Content(text)]


def _first(text: str, marks: Sequence[str]) -> tuple[int, str]:
    """Return the position and text of the first mark, or of the part of a mark at the text's end and ""."""
    found = [(at, mark) for mark in marks if (at := text.find(mark)) >= 0]
    return min(found) if found else (len(text) - max(_overlap(text, mark) for mark in marks), "")


def _overlap(text: str, mark: str) -> int:
    """Return the length of the longest end of the text that begins the mark."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)
