"""Answers on standard output: plain text, or rendered Markdown on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol

#: Control characters and their replacements: a model's text must not move the cursor or set the title.
CONTROLS: dict[int, str | None] = {
    **{code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"},
    0x2028: "\n",  # Unicode's line and paragraph separators
    0x2029: "\n\n",
}


class AnswerWriter(Protocol):
    """Display of an answer written in pieces. `finish` completes the display, also if the answer was stopped."""

    def write(self, piece: str) -> None: ...

    def finish(self) -> None: ...


class PlainWriter:
    """Writer of unchanged text; without control characters on a terminal."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()

    def write(self, piece: str) -> None:
        print(piece.translate(CONTROLS) if self._is_terminal else piece, end="", flush=True)

    def finish(self) -> None:
        print(flush=True)


@contextlib.contextmanager
def without_echo() -> Iterator[None]:
    """Hide keys typed while an answer is displayed; they are read afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    silent = list(before)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
