"""Messages typed in earlier chats: a bounded file that only its owner can read."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

MAX_ENTRIES = 1000
#: Maximum length of a stored message; a longer one was pasted.
MAX_CHARACTERS = 20_000
FILE_NAME = "chat-history.jsonl"


class HistoryFile:
    """File with a JSON string per line, oldest first. Several chats may append at the same time.

    A read or write error does not end the chat: `problem` then has the reason, and nothing is stored.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None

    def load(self) -> list[str]:
        """Return the newest MAX_ENTRIES messages, oldest first; shorten a file that has grown to twice that limit."""
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        except OSError as error:
            self.problem = f"cannot read {self.path}: {error.strerror or error}"
            return []
        entries = []
        for line in lines:
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, str):
                    entries.append(entry)
        if len(lines) > 2 * MAX_ENTRIES:
            self._rewrite(entries[-MAX_ENTRIES:])
        return entries[-MAX_ENTRIES:]

    def append(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _write(self.path, os.O_APPEND, json.dumps(text) + "\n")
        except OSError as error:
            self.problem = f"cannot write {self.path}: {error.strerror or error}"

    def _rewrite(self, entries: list[str]) -> None:
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            _write(partial, os.O_TRUNC, "".join(json.dumps(entry) + "\n" for entry in entries))
            partial.replace(self.path)
        except OSError as error:
            self.problem = f"cannot write {self.path}: {error.strerror or error}"


def _write(path: Path, flag: int, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flag, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # the file may be older, or the umask unusual
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
