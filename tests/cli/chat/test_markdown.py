"""Markdown on a screen: the same picture however the text is cut into pieces, and no word of it lost."""

from __future__ import annotations

import io
import random
import re

import pyte
import pytest

from antiphon.cli.chat.markdown import MarkdownWriter

DOCUMENT = '''# Title

Some **bold**, ~~struck~~ and `code` with a <think>tag</think> in it.
A second line of a poem,
a third.

1. one
   - nested *deeper*
   - more
2. two

   ```python
   def inside(): pass
   ```
10. ten

```python
def main():
    """A docstring

    with an empty line."""
    return 1

```
After the code a [link](http://example.org/page) and an ![image](picture.png).

[reference]: http://example.org/defined

<div>block of html</div>

| left | right |
|------|-------|
| cell | other |

> quoted
> lines

- first
- second
**lazy continuation**

---

    indented code
'''


class _File(io.StringIO):
    """Standard output of a terminal of 70 columns."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(70, rows, history=10_000, ratio=1)
        self._stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self._stream.feed(text.replace("\n", "\r\n"))
        return len(text)

    def lines(self) -> list[str]:
        top = ["".join(row[column].data for column in range(70)) for row in self.screen.history.top]
        return "\n".join(line.rstrip() for line in [*top, *self.screen.display]).rstrip("\n").split("\n")


def shown(pieces: list[str], rows: int = 200) -> list[str]:
    file = _File(rows)
    writer = MarkdownWriter(file)
    writer._console.size = (70, rows)  # type: ignore[assignment]
    for piece in pieces:
        writer._paint_at = 0.0  # paint after each piece, not now and then
        writer.write(piece)
    writer.finish()
    return file.lines()


@pytest.mark.parametrize("rows", [200, 6])
@pytest.mark.parametrize("seed", range(4))
def test_the_pieces_do_not_matter(rows: int, seed: int) -> None:
    rng, pieces, rest = random.Random(seed), [], DOCUMENT
    while rest:
        size = rng.choice([1, 2, 5, 20])
        pieces.append(rest[:size])
        rest = rest[size:]
    assert shown(pieces, rows) == shown([DOCUMENT])


def test_no_word_is_lost() -> None:
    picture = " ".join(shown([DOCUMENT]))
    for word in re.findall(r"[a-zA-Z]+", DOCUMENT):
        assert word in picture, word
    assert "**" not in picture and "# Title" not in picture
    lines = shown([DOCUMENT])
    start = lines.index("A second line of a poem,")
    assert lines[start + 1] == "a third."
    assert lines[lines.index("def main():") - 1] == "```python"
    assert lines[lines.index('    """A docstring') + 1] == ""


def test_other_line_separators_are_text() -> None:
    """Unicode's line and paragraph separators do not end a line of Markdown."""
    words = "\n".join(shown(["First\u2028line\n\nSecond\u2029part\n\nThird\n\nFourth"]))
    assert [word for word in ("First", "line", "Second", "part", "Third", "Fourth") if word not in words] == []


def test_nothing_is_shown_of_an_empty_answer() -> None:
    assert shown([]) == [""]
    assert shown([" ", "\n"]) == [""]


def test_a_table_longer_than_the_screen() -> None:
    rows = [f"| {n} | value {n} |\n" for n in range(30)]
    lines = shown(["| n | v |\n", "|---|---|\n", *rows], rows=8)
    assert [re.sub(r"\s+", " ", line).strip() for line in lines[2:]] == [f"{n} value {n}" for n in range(30)]
