"""JSON lines with a task's data; errors name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from antiphon.errors import InvalidRequestError


@dataclass(frozen=True)
class Line:
    """Object of a JSON-lines file. A missing field, or one of another type, raises `InvalidRequestError`."""

    source: str
    number: int
    fields: Mapping[str, Any]
    folder: Path | None = None

    @property
    def id(self) -> str:
        """Field `id`, or the line number if it is missing."""
        return str(self.fields.get("id", self.number))

    @property
    def location(self) -> str:
        return f"{self.source}:{self.number}"

    def error(self, problem: str) -> InvalidRequestError:
        return InvalidRequestError(f"{self.location}: {problem}")

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, *names: str) -> str:
        """Return the text of the first of these fields that the line has."""
        name, value = self._first(names)
        if not isinstance(value, str):
            raise self.error(f"{name!r} is {_kind(value)}; it must be a text")
        return value

    def texts(self, *names: str) -> list[str]:
        """Return the texts of the first of these fields that the line has: one text, or a non-empty list."""
        name, value = self._first(names)
        found = [value] if isinstance(value, str) else value
        if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
            raise self.error(f"{name!r} is {_kind(value)}; it must be a text or a list of texts")
        return list(found)

    def integer(self, name: str) -> int:
        _, value = self._first((name,))
        if type(value) is not int:
            raise self.error(f"{name!r} is {_kind(value)}; it must be a whole number")
        return value

    def path(self, *names: str) -> Path:
        """Return an existing file, named relative to the folder of the data file."""
        name = self.text(*names)
        path = (self.folder or Path()) / name
        if not path.is_file():
            raise self.error(f"there is no file {path}")
        return path

    def _first(self, names: tuple[str, ...]) -> tuple[str, Any]:
        for name in names:
            if self.has(name):
                return name, self.fields[name]
        wanted = " or ".join(repr(name) for name in names)
        raise self.error(f"{wanted} is missing; the line has {', '.join(map(repr, self.fields)) or 'no fields'}")


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    if isinstance(value, list) and not value:
        return "an empty list"
    return kinds.get(type(value), "a text" if isinstance(value, str) else "null")


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequestError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{path} is not UTF-8 text: {error}") from error


def read_lines(path: Path) -> list[Line]:
    """Return the objects of a JSON-lines file, at least one. Empty lines are skipped."""
    return lines_of(read_text(path), str(path), path.parent)


def lines_of(text: str, source: str, folder: Path | None = None) -> list[Line]:
    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
        except ValueError as error:
            raise InvalidRequestError(f"{source}:{number}: this is not JSON: {error}") from error
        if not isinstance(fields, dict):
            raise InvalidRequestError(f"{source}:{number}: this is {_kind(fields)}; a line must be a JSON object")
        lines.append(Line(source, number, fields, folder))
    if not lines:
        raise InvalidRequestError(f"{source} has no items")
    return lines


def sample_text(name: str) -> str:
    """Return the text of a data file of this package."""
    return (resources.files("antiphon.evaluation") / "data" / name).read_text(encoding="utf-8")
