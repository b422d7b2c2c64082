"""Conversations as JSON files with the messages, the system message and the settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from antiphon.cli.chat import settings
from antiphon.cli.chat.state import ChatState, Message
from antiphon.cli.terminal.files import replace_text
from antiphon.errors import AntiphonError, InvalidRequestError

FORMAT, VERSION = "antiphon-chat", 1
ROLES = ("user", "assistant")
MAX_BYTES = 64 << 20


def save(path: Path, state: ChatState, model: str) -> bool:
    """Write the conversation; return whether it replaced an older one. Raise instead of overwriting any other file."""
    replaces = os.path.lexists(path)
    if replaces:
        try:
            _read(path)
        except AntiphonError as error:
            raise InvalidRequestError(f"{path} exists and is not a saved conversation; choose another name") from error
    content = {
        "format": FORMAT,
        "version": VERSION,
        "model": model,
        "system": state.system,
        "settings": state.settings,
        "messages": state.messages,
    }
    replace_text(Path(os.path.realpath(path)), json.dumps(content, ensure_ascii=False, indent=2) + "\n")
    return replaces


def load(path: Path, state: ChatState) -> str:
    """Replace the conversation by a saved one; return the name of its model."""
    content = _read(path)
    system = content.get("system")
    if not (system is None or isinstance(system, str)):
        raise InvalidRequestError(f"{path}: the system message is not text")
    given = content.get("settings", {})
    if not isinstance(given, dict):
        raise InvalidRequestError(f"{path}: the settings are not an object")
    if isinstance(given.get("stop"), list):
        given = {**given, "stop": tuple(given["stop"])}
    try:
        chosen = settings.check(given)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{path}: {error}") from error
    state.take(system, chosen, _messages(path, content.get("messages")))
    return str(content.get("model"))


def _read(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidRequestError(f"{path} is not a saved conversation: it has more than {MAX_BYTES >> 20} MiB")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRequestError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{path} is not a saved conversation: it is not JSON") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidRequestError(f"{path} is not a saved conversation: it has no format {FORMAT!r}")
    if content.get("version") != VERSION:
        raise InvalidRequestError(
            f"{path} is a conversation of version {content.get('version')!r}; this release reads version {VERSION}"
        )
    return content


def _messages(path: Path, given: Any) -> list[Message]:
    if not isinstance(given, list):
        raise InvalidRequestError(f"{path} has no list of messages")
    messages = []
    for number, message in enumerate(given, start=1):
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in ROLES or not isinstance(content, str):
            raise InvalidRequestError(f"{path}: message {number} needs a role (user or assistant) and a text")
        messages.append({"role": role, "content": content})
    return messages
