"""A program on a terminal with a screen: cursor control, scrollback, and answers to the program's terminal queries."""

from __future__ import annotations

import fcntl
import select
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence

import pyte

from support.programs.forks import Template
from support.programs.terminal import Terminal
from support.waiting import PATIENCE_SECONDS

PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"
UP = "\x1b[A"


class Screen(Terminal):
    """Terminal with a screen, emulated by pyte; `text` includes lines that have scrolled off the top."""

    def __init__(
        self,
        template: Template,
        code: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=1)
        self._screen.write_process_input = self.type
        self._stream = pyte.Stream(self._screen)
        super().__init__(template, code, arguments, {"TERM": "xterm-256color", **(environment or {})})

    def opened(self) -> None:
        self._set_size(self._screen.columns, self._screen.lines)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window; the program receives SIGWINCH.

        pyte drops the top lines of a screen that becomes lower. Here, as in terminals, the empty lines at the bottom go
        first, and lines that scroll off the top stay in the history.
        """
        screen, x, y = self._screen, self._screen.cursor.x, self._screen.cursor.y
        dropped = max(0, screen.lines - rows)
        scrolled = min(dropped, max(0, y - rows + 1))
        screen.cursor.y = 0
        if dropped > scrolled:
            screen.insert_lines(dropped - scrolled)
        screen.history.top.extend(screen.buffer[row] for row in range(dropped - scrolled, dropped))
        screen.resize(rows, columns)
        screen.cursor.x, screen.cursor.y = min(x, columns - 1), y - scrolled
        self._set_size(columns, rows)

    def _read(self) -> str:
        text = super()._read()
        self._stream.feed(text)
        return text

    @property
    def text(self) -> str:
        scrolled = ["".join(row[column].data for column in range(self._screen.columns)) for row in self._history()]
        return "\n".join(line.rstrip() for line in [*scrolled, *self._screen.display])

    def _history(self) -> Sequence[dict[int, pyte.screens.Char]]:
        return list(self._screen.history.top)

    @property
    def line(self) -> str:
        """Text of the line that the cursor is on."""
        return str(self._screen.display[self._screen.cursor.y]).rstrip()

    def until(self, condition: Callable[[], object], timeout: float = PATIENCE_SECONDS) -> None:
        """Read the program's output until the condition holds."""
        deadline = time.monotonic() + timeout
        while not condition():
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"not within {timeout} s; the screen:\n{self.text}"
            self.shown += self._read()

    def until_shown(self, *texts: str) -> None:
        """Wait until all of the texts are on the screen; the terminal may break them at its right edge."""

        def are_shown() -> bool:
            lines = self.text
            joined = lines.replace("\n", "")
            return all(text in lines or text in joined for text in texts)

        self.until(are_shown)

    def until_prompt(self) -> None:
        """Wait until the program shows an empty prompt."""
        self.until(lambda: self.line == ">")

    def paste(self, text: str) -> None:
        """Paste text as terminals do: between two marks, with carriage returns."""
        self.type(PASTE_START + text.replace("\n", "\r") + PASTE_END)
