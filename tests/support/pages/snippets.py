"""Code blocks of Markdown pages, with the pages' markers for running them.

A block is run unless the line before it is `<!-- not run: REASON -->`. A `text` block that directly follows a run block
holds lines of its output; `...` stands for any text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from antiphon.weights.catalog.catalog import catalog

ROOT = Path(__file__).parents[3]
#: Generated pages, which have no commands to run.
GENERATED = ("cli.md", "python-api.md")
README = ROOT / "README.md"
#: Pages whose blocks run alone, each in a folder with all files that the pages name; README's run in order in a clone.
DOCS = [
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name not in GENERATED),
    *sorted((ROOT / "docs" / "server").glob("*.md")),
    *sorted((ROOT / "docs" / "recipes").glob("*.md")),
]
PAGES = [README, *DOCS]

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Snippet:
    """Block of a page. `line` is the line number of its first line of code, counted from 1."""

    page: Path
    line: int
    language: str
    code: str
    #: Reason not to run the block; None if it is run.
    not_run: str | None
    #: Output lines that the page shows below the block.
    shown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@cache
def snippets(page: Path) -> list[Snippet]:
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


def in_language(language: str, pages: Sequence[Path] = PAGES) -> list[Snippet]:
    return [snippet for page in pages for snippet in snippets(page) if snippet.language == language]


@cache
def commands_to_run() -> list[list[Snippet]]:
    """Return the `sh` blocks of `DOCS` to run, except those that start a server; blocks with equal code form a group.

    A block is left out if other blocks, also README's, run each of its commands, perhaps with more options, unless the
    page shows output of the block.
    """
    found: dict[str, list[Snippet]] = {}
    for snippet in in_language("sh", DOCS):
        if snippet.not_run is None and not is_server(snippet):
            found.setdefault(snippet.code, []).append(snippet)
    of_readme = [command for snippet in blocks_to_run(README) for command in commands(snippet.code)]
    for code in list(found):
        others = of_readme + [command for other in found if other != code for command in commands(other)]
        is_covered = all(any(_is_part(command, other) for other in others) for command in commands(code))
        if is_covered and not any(snippet.shown for snippet in found[code]):
            del found[code]
    return list(found.values())


def is_server(snippet: Snippet) -> bool:
    return snippet.code.startswith("antiphon serve")


def commands(code: str) -> list[str]:
    """Split a block into commands, joining lines continued by a backslash."""
    return code.replace("\\\n", "").splitlines()


def _is_part(command: str, other: str) -> bool:
    """Return whether the commands are equal, or `command` is the Antiphon command `other` with fewer options."""
    if command == other:
        return True
    (kind, options), (other_kind, other_options) = _kind(command), _kind(other)
    return kind[:1] == ("antiphon",) and kind == other_kind and options <= other_options


def _kind(command: str) -> tuple[tuple[str, ...], set[str]]:
    """Return a command's words that name commands or models, and the names of its options."""
    words = shlex.split(command, comments=True)
    kind = tuple(word for word in words if word in catalog() or re.fullmatch("[a-z]+", word))
    return kind, {word for word in words if word.startswith("-")}


def blocks_to_run(page: Path) -> list[Snippet]:
    """Return the `sh` and Python blocks of a page that are run, in the page's order."""
    return [snippet for snippet in snippets(page) if snippet.language in ("sh", "python") and snippet.not_run is None]


def python_blocks(page: Path) -> list[Snippet]:
    return [snippet for snippet in blocks_to_run(page) if snippet.language == "python"]


def line_is_shown(line: str, output: str) -> bool:
    """Return whether the output contains the line; `...` in the line matches any text within a line."""
    pattern = ".*".join(re.escape(part) for part in line.strip().split("..."))
    return re.search(pattern, output) is not None
