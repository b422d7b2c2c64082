"""JSON files that come with a model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from antiphon.errors import CheckpointError
from antiphon.regular_file import open_regular

MAX_BYTES = 64 << 20


def read_json(path: Path) -> Any:
    """Return the value in a file, or raise `CheckpointError`, with the path, if it is unreadable or not JSON."""
    return _parse(path, _bytes(path))


def read_json_object(path: Path) -> dict[str, Any]:
    return parse_json_object(path, _bytes(path))


def parse_json_object(path: Path, text: bytes, unique_keys: bool = False) -> dict[str, Any]:
    """Parse the object in `text`, read from `path`; with `unique_keys`, reject a key that occurs twice."""
    content = _parse(path, text, unique_keys)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path}: is a JSON {type(content).__name__}, not an object")
    return content


def _bytes(path: Path) -> bytes:
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                raise CheckpointError(f"{path} has {size} bytes; at most {MAX_BYTES} are read")
            return file.read()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror or error}") from error


def _parse(path: Path, text: bytes, unique_keys: bool = False) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key, value in pairs:
            if key in content:
                raise CheckpointError(f"{path}: {key!r} occurs twice in its header")
            content[key] = value
        return content

    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=unique if unique_keys else None)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: is not valid JSON: {error}") from error
