"""Markdown rendered on a terminal while it is generated.

Complete blocks are printed once and stay; only the block at the end is repainted as it grows. Lines printed for good
depend on the text alone, so nothing is lost when the terminal is resized or an answer is longer than the screen.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import ClassVar, NamedTuple, TextIO

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.syntax import Syntax
from rich.text import Text

from antiphon.cli.chat.output import CONTROLS

#: Theme that uses the terminal's own colours and background, so that it is readable on dark and light terminals.
CODE_THEME = "ansi_dark"
#: Minimum ratio of the time between paints to a paint's own time, so that long blocks do not slow the display.
PAINT_SHARE = 10
MIN_PAINT_SECONDS = 0.03
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

# HTML, images and link definitions would not be displayed: their text stays unchanged.
_parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).disable(["image", "reference"])


class _Code(CodeBlock):
    """Code block without a margin, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = _highlighted(str(self.text).rstrip(), self.lexer_name)
        text.rstrip()
        yield text


class _Heading(Heading):
    """Heading aligned left, whatever its level."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "fence": _Code, "code_block": _Code, "heading_open": _Heading}

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False, code_theme=CODE_THEME)
        self.parsed = _parser.parse(text)
        for token in self.parsed:
            for child in token.children or ():
                if child.type == "softbreak":  # keeps the lines of a poem or an address
                    child.type = "hardbreak"


class _Block(NamedTuple):
    """Top-level block: offset in the text, source, first token, and offsets of its list items in the source."""

    offset: int
    source: str
    token: Token
    items: list[int]

    @property
    def is_closed(self) -> bool:
        """Whether a code block has its closing fence."""
        _, *rest = self.source.rstrip("\n").split("\n")
        last, mark = rest[-1].strip() if rest else "", self.token.markup
        return len(last) >= len(mark) and set(last) == set(mark)


class MarkdownWriter:
    """`AnswerWriter` for a terminal with cursor control."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._console = Console(file=file, force_terminal=True, highlight=False)
        self._text = ""  # text not yet printed for good; begins at a block
        self._is_first = True
        self._continues = False  # the first part of that block is printed
        self._code_lines = 0  # number of printed lines of that block, if it is code
        self._live: list[str] = []  # lines on the screen that may be repainted
        self._paint_at = 0.0

    def write(self, piece: str) -> None:
        self._text += piece.translate(CONTROLS)
        now = time.monotonic()
        if now >= self._paint_at:
            self._paint()
            took = time.monotonic() - now
            self._paint_at = now + took + max(MIN_PAINT_SECONDS, PAINT_SHARE * took)

    def finish(self) -> None:
        self._measure()
        settled = [line for block in _blocks(self._text) for line in self._settled(block)]
        self._show(settled, [])

    def _measure(self) -> None:
        """Update the terminal's size; rich itself would use a COLUMNS variable from before a resize."""
        with contextlib.suppress(OSError, ValueError):  # not a terminal
            columns, rows = os.get_terminal_size(self._file.fileno())
            self._console.size = ConsoleDimensions(columns or 80, rows or 24)

    def _paint(self) -> None:
        self._measure()
        settled = self._settle()
        live: list[str] = []
        for index, block in enumerate(_blocks(self._text)):
            live += self._lines(block) if index == 0 else ["", *self._rendered(block)]
        height = max(1, self._console.height - 1)
        self._show(settled, live[-height:])

    def _show(self, settled: list[str], live: list[str]) -> None:
        """Print `settled` lines for good and paint `live` lines below them.

        Unchanged lines on the screen are not rewritten.
        """
        lines = [*settled, *live]
        same = 0
        while same < min(len(lines), len(self._live)) and lines[same] == self._live[same]:
            same += 1
        above = len(self._live) - same
        back = f"\x1b[{above}A\r\x1b[J" if above else ""
        self._file.write(back + "".join(f"{line}\n" for line in lines[same:]))
        self._file.flush()
        self._live = live

    # -- what is complete ---------------------------------------------------------------------------------------

    def _settle(self) -> list[str]:
        """Remove from the text the part that further text cannot change; return its rendered lines.

        That part is every block but the last; of the last block, all items of a list but the last item, or whole lines
        of code. Only whole lines are considered, since the line in progress may still become any kind of block.
        """
        blocks = _blocks(self._text[: self._text.rfind("\n") + 1])
        if not blocks:
            return []
        *complete, last = blocks
        lines = [line for block in complete for line in self._settled(block)]
        rest = last.offset
        if last.items:
            rest += last.items[-1]
            if last.items[-1]:
                lines += self._lines(last._replace(source=last.source[: last.items[-1]]))
                self._continues = True
        elif last.token.type == "fence" and last.is_closed:
            rest += len(last.source)
            lines += self._settled(last)
        elif last.token.type == "fence":
            lines += self._lines(last)
            self._continues, self._code_lines = True, _count_code_lines(last)
        self._text = self._text[rest:]
        return lines

    def _settled(self, block: _Block) -> list[str]:
        lines = self._lines(block)
        self._is_first, self._continues, self._code_lines = False, False, 0
        return lines

    # -- rendering ----------------------------------------------------------------------------------------------

    def _lines(self, block: _Block) -> list[str]:
        """Render the text's first block, without the lines that are already printed."""
        if self._continues:
            return self._rendered(block, self._code_lines)
        return [*([] if self._is_first else [""]), *self._rendered(block)]

    def _rendered(self, block: _Block, code_lines: int | None = None) -> list[str]:
        """Render a block without surrounding empty lines; of continued code, the lines after `code_lines`."""
        if block.token.type == "fence":
            code = _code(block, code_lines)
            return [] if code is None else self._printed(code)
        # Render a list item by item, as in a long list that is printed in parts, so that each keeps its number.
        ends = [start for start in block.items if 0 < start < len(block.source)]
        parts = zip([0, *ends], [*ends, len(block.source)], strict=True)
        return [line for start, end in parts for line in _trimmed(self._printed(_Markdown(block.source[start:end])))]

    def _printed(self, renderable: RenderableType) -> list[str]:
        with self._console.capture() as capture:
            self._console.print(renderable)
        return capture.get().removesuffix("\n").split("\n")


def _blocks(text: str) -> list[_Block]:
    tokens = _parser.parse(text)
    # Line starts as the parser counts them: `splitlines` would split at other characters too.
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    blocks: list[_Block] = []
    for token in tokens:
        if token.map is None or token.nesting < 0:
            continue
        first, after = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
        if token.level == 0:
            blocks.append(_Block(first, text[first:after], token, []))
        elif token.level == 1 and token.type == "list_item_open":
            blocks[-1].items.append(first - blocks[-1].offset)
    return blocks


def _count_code_lines(block: _Block) -> int:
    return block.source.removesuffix("\n").count("\n") - block.is_closed


def _code(block: _Block, printed: int | None) -> RenderableType | None:
    """Return code between its fences, or None if no line is left to print.

    `printed` is the number of lines already on the screen below the opening fence, or None if the fence is not printed.
    """
    count = _count_code_lines(block)
    content = block.token.content.removesuffix("\n")
    code = list(_highlighted(content, block.token.info.partition(" ")[0]).split("\n", allow_blank=True))
    fences = block.source.removesuffix("\n").split("\n")
    parts = [] if printed is not None else [Text(fences[0], "dim")]
    parts += code[:count][printed or 0 :]
    parts += [Text(fences[-1], "dim")] if block.is_closed else []
    return Text("\n").join(parts) if parts else None


def _highlighted(code: str, language: str) -> Text:
    return Syntax(code, language or "text", theme=CODE_THEME, background_color="default").highlight(code)


def _trimmed(lines: list[str]) -> list[str]:
    """Remove empty lines at the beginning and the end."""
    filled = [index for index, line in enumerate(lines) if ESCAPES.sub("", line).strip()]
    return lines[filled[0] : filled[-1] + 1] if filled else []
