"""Notes of a command about its own choices, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def note(text: str) -> None:
    """Print a line on standard error, dim on a terminal."""
    print(f"{DIM}{text}{PLAIN}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)


@contextmanager
def passing_note(text: str) -> Iterator[None]:
    """Show a dim line on a terminal while the block runs; other lines of the block take its place."""
    is_shown = sys.stderr.isatty()
    if is_shown:
        print(f"{DIM}{text}{PLAIN}", end="\r", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if is_shown:
            print("\x1b[K", end="", file=sys.stderr, flush=True)
