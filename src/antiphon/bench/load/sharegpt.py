"""Prompts and answers of real conversations, from a file in ShareGPT's format."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from antiphon.errors import InvalidRequestError

ASKING = {"human", "user"}
ANSWERING = {"gpt", "assistant", "chatgpt", "bing", "bard"}


@dataclass(frozen=True)
class Exchange:
    """First question of a conversation and its answer."""

    prompt: str
    answer: str


@dataclass(frozen=True)
class Dataset:
    exchanges: list[Exchange]
    digest: str  # SHA-256 of the file; results of different files are not compared


def read_sharegpt(path: Path) -> Dataset:
    """Read a JSON list, or JSON lines, of objects with `conversations` (or `messages`).

    Conversations that do not begin with a question and its answer are left out; raise an error if none is left.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidRequestError(f"cannot read {path}: {error.strerror or error}") from error
    exchanges = [exchange for row in _rows(content, path) if (exchange := _exchange(row)) is not None]
    if not exchanges:
        raise InvalidRequestError(f"{path} has no conversation that begins with a question and its answer")
    return Dataset(exchanges, hashlib.sha256(content).hexdigest())


def _rows(content: bytes, path: Path) -> list[Any]:
    try:
        if content.lstrip().startswith(b"["):
            rows = msgspec.json.decode(content)
            return rows if isinstance(rows, list) else []
        return [msgspec.json.decode(line) for line in content.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise InvalidRequestError(f"{path} is neither JSON nor JSON lines: {error}") from error


def _exchange(row: Any) -> Exchange | None:
    turns = (row.get("conversations") or row.get("messages")) if isinstance(row, dict) else None
    if not isinstance(turns, list):
        return None
    said = [_turn(turn) for turn in turns if isinstance(turn, dict)]
    if said and said[0][0] == "system":
        said = said[1:]
    if len(said) < 2 or said[0][0] not in ASKING or said[1][0] not in ANSWERING:
        return None
    prompt, answer = said[0][1].strip(), said[1][1].strip()
    return Exchange(prompt, answer) if prompt and answer else None


def _turn(turn: dict[str, Any]) -> tuple[str, str]:
    role, text = turn.get("from", turn.get("role")), turn.get("value", turn.get("content"))
    return str(role), text if isinstance(text, str) else ""
