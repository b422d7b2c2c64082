"""Messages from standard input, line by line: for pipes and for terminals without cursor control."""

from __future__ import annotations

import sys
from typing import Protocol

from antiphon.errors import InvalidRequestError

PROMPT = "> "
QUOTES = '"""'


class MessageReader(Protocol):
    """Where messages come from. `read` raises EOFError at the end, and KeyboardInterrupt on Ctrl-C."""

    is_interactive: bool

    def read(self, draft: str = "") -> str:
        """The next message as it was typed; `draft` is offered for editing where that is possible."""
        ...


def is_open(text: str) -> bool:
    """Whether the text begins with three quotes and lacks those that end it."""
    text = text.strip()
    return text.startswith(QUOTES) and not (len(text) >= 2 * len(QUOTES) and text.endswith(QUOTES))


def quoted(text: str) -> str | None:
    """What stands between three quotes and three quotes; None for a text without them."""
    text = text.strip()
    if not text.startswith(QUOTES):
        return None
    return text.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


class LineReader:
    """A line is a message; three quotes begin and end one of several lines."""

    def __init__(self) -> None:
        self.is_interactive = sys.stdin.isatty()

    def read(self, draft: str = "") -> str:
        text = self._line(PROMPT)
        while is_open(text):
            try:
                text += "\n" + self._line("")
            except EOFError:
                break
        return text

    def _line(self, prompt: str) -> str:
        if self.is_interactive and prompt:
            print(prompt, end="", file=sys.stderr, flush=True)
        try:
            line = sys.stdin.readline()
        except UnicodeDecodeError as error:
            raise InvalidRequestError(f"standard input is not UTF-8 text: {error}") from error
        except KeyboardInterrupt:
            if self.is_interactive:
                print(file=sys.stderr)
            raise
        if not line:
            if self.is_interactive:
                print(file=sys.stderr)
            raise EOFError
        return line.removesuffix("\n")
