"""The code blocks of Markdown pages, and what a page says about running them.

A block is run unless the line before it is `<!-- not run: REASON -->`. A `text` block that directly follows a block
which is run holds lines of its output; `...` stands for anything.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from antiphon.weights.catalog.catalog import catalog

ROOT = Path(__file__).parents[3]
#: Generated pages have no commands to run: docs/cli.md is help, docs/python-api.md is signatures.
GENERATED = ("cli.md", "python-api.md")
PAGES = [
    ROOT / "README.md",
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED),
]

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Snippet:
    """A block of a page. `line` is the number of its first line of code, counted from 1."""

    page: Path
    line: int
    language: str
    code: str
    #: Why it is not run; None if it is.
    not_run: str | None
    #: Lines of output that the page shows below the block.
    shown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def snippets(page: Path) -> list[Snippet]:
    """Every block of a page, in order."""
    blocks = list(_blocks(page))
    out = []
    for index, (start, end, language, code, reason) in enumerate(blocks):
        shown: tuple[str, ...] = ()
        if index + 1 < len(blocks) and blocks[index + 1][2] == "text" and blocks[index + 1][0] - end <= 3:
            shown = tuple(line for line in blocks[index + 1][3].splitlines() if line.strip())
        out.append(Snippet(page, start, language, code, reason, shown))
    return out


def _blocks(page: Path) -> Iterator[tuple[int, int, str, str, str | None]]:
    lines = page.read_text(encoding="utf-8").splitlines()
    language, start, reason = None, 0, None
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line.strip())
        if fence is None:
            continue
        if language is None:
            language, start = fence[1], number + 1
            marker = _NOT_RUN.match(lines[number - 2]) if number >= 2 else None
            reason = marker[1] if marker else None
        else:
            yield start, number, language, "\n".join(lines[start - 1 : number - 1]) + "\n", reason
            language = None
    assert language is None, f"{page.name}: the block at line {start} has no end"


def in_language(language: str) -> list[Snippet]:
    """The blocks of all pages in a language."""
    return [snippet for page in PAGES for snippet in snippets(page) if snippet.language == language]


@cache
def commands_to_run() -> list[list[Snippet]]:
    """The `sh` blocks that are run, apart from those that start a server; blocks of the same code are one.

    A block is left out if each of its commands is run in another block, perhaps with more options, unless the page
    shows output of the block.
    """
    found: dict[str, list[Snippet]] = {}
    for snippet in in_language("sh"):
        if snippet.not_run is None and not is_server(snippet):
            found.setdefault(snippet.code, []).append(snippet)
    for code in list(found):
        others = [command for other in found if other != code for command in commands(other)]
        is_covered = all(any(_is_part(command, other) for other in others) for command in commands(code))
        if is_covered and not any(snippet.shown for snippet in found[code]):
            del found[code]
    return list(found.values())


def is_server(snippet: Snippet) -> bool:
    return snippet.code.startswith("antiphon serve")


def commands(code: str) -> list[str]:
    """The lines of a block, those that a backslash continues joined."""
    return code.replace("\\\n", "").splitlines()


def _is_part(command: str, other: str) -> bool:
    """Whether a command is the same as another, or a plain command of Antiphon with fewer options or other values."""
    if command == other:
        return True
    (kind, options), (other_kind, other_options) = _kind(command), _kind(other)
    return kind[:1] == ("antiphon",) and kind == other_kind and options <= other_options


def _kind(command: str) -> tuple[tuple[str, ...], set[str]]:
    """A command's words that are commands or models, and the names of its options."""
    words = shlex.split(command, comments=True)
    kind = tuple(word for word in words if word in catalog() or re.fullmatch("[a-z]+", word))
    return kind, {word for word in words if word.startswith("-")}


def python_blocks(page: Path) -> list[Snippet]:
    """The Python blocks of a page that are run."""
    return [snippet for snippet in snippets(page) if snippet.language == "python" and snippet.not_run is None]


def line_is_shown(line: str, output: str) -> bool:
    """Whether output has the line; `...` in it stands for anything within one line."""
    pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
    return re.search(pattern, output) is not None
