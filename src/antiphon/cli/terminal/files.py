"""Files that commands read and write: checked before the work, with errors that name them."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from antiphon.errors import InvalidRequestError


def check_writable(path: Path) -> None:
    """Raise if a path clearly cannot be written; create nothing."""
    if path.is_dir():
        raise InvalidRequestError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise InvalidRequestError(f"cannot write {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidRequestError(f"cannot write {path}: permission denied")


def read_text(path: Path, failure: str | None = None) -> str:
    """Read a text file; `failure` replaces "cannot read PATH" in the error."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidRequestError(f"{failure or f'cannot read {path}'}: {reason}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file; its previous content is lost even if writing fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"cannot write {path}: {error.strerror or error}") from error


def replace_text(path: Path, text: str) -> None:
    """Write a text file atomically, through a temporary file beside it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise InvalidRequestError(f"cannot write {path}: {error.strerror or error}") from error


def read_stdin() -> str:
    """Read standard input; raise InvalidRequestError unless it is UTF-8."""
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"standard input is not UTF-8 text: {error}") from error


def write_json(path: Path, content: Any) -> None:
    """Write indented JSON, with each list of numbers on a single line."""
    import msgspec

    text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode()
    write_text(path, re.sub(r"\[\n([-+.\deE,\s]+)\]", _in_one_line, text) + "\n")


def _in_one_line(numbers: re.Match[str]) -> str:
    return f"[{', '.join(part.strip() for part in numbers[1].split(','))}]"
