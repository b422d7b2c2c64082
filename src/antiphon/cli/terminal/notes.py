"""Notes of a command about its own choices, on standard error."""

from __future__ import annotations

import sys

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def note(text: str) -> None:
    """Print a line on standard error, dim on a terminal."""
    print(f"{DIM}{text}{PLAIN}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
