"""Progress of counted items, in a line on standard error."""

from __future__ import annotations

import sys

from antiphon.counted import counted


class CountLine:
    """Line that counts items, if standard error is a terminal."""

    def __init__(self, noun: str, label: str = "") -> None:
        self._noun = noun
        self._label = f"{label}: " if label else ""
        self._is_shown = sys.stderr.isatty()

    def show(self, done: int, total: int) -> None:
        if self._is_shown and (done % max(1, total // 100) == 0 or done == total):
            line = f"{self._label}{done:,} of {counted(total, self._noun)}"
            print(f"\r{line}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
