"""Messages from standard input, line by line: for pipes and for terminals without cursor control."""

from __future__ import annotations

import sys
from typing import Protocol

from antiphon.errors import InvalidRequestError

PROMPT = "> "
QUOTES = '"""'


class MessageReader(Protocol):
    """Source of messages. `read` raises EOFError at the end of input, and KeyboardInterrupt on Ctrl-C."""

    is_interactive: bool

    def read(self, draft: str = "") -> str:
        """Return the next message as typed; `draft` is offered for editing if the reader supports it."""
        ...


def is_open(text: str) -> bool:
    """Return whether the text begins with three quotes that are not closed yet."""
    text = text.strip()
    return text.startswith(QUOTES) and not (len(text) >= 2 * len(QUOTES) and text.endswith(QUOTES))


def quoted(text: str) -> str | None:
    """Return the text between opening and closing triple quotes, or None if the text does not begin with quotes."""
    text = text.strip()
    if not text.startswith(QUOTES):
        return None
    return text.removeprefix(QUOTES).removesuffix(QUOTES).strip("\n")


class LineReader:
    """Reader of a message per line; three quotes begin and end a message of several lines."""

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
