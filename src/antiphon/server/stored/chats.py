"""`ChatStore`: chat completions made with `store: true`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import Request

from antiphon.server.generation.parameters.messages import Message
from antiphon.server.stored.bounded_store import BoundedStore
from antiphon.server.web.http.errors import ApiError


@dataclass
class StoredChat:
    """Answer as it was sent, with its metadata, and the messages of the request, each with an id."""

    body: dict[str, Any]
    messages: list[dict[str, Any]]
    owner: int | None

    @property
    def id(self) -> str:
        return str(self.body["id"])


class ChatStore:
    """Completions, limited in number and bytes; the least recently used is removed first."""

    def __init__(self, max_chats: int, max_bytes: int) -> None:
        self._store: BoundedStore[StoredChat] = BoundedStore(max_chats, max_bytes)

    def __len__(self) -> int:
        return len(self._store)

    def keep(
        self,
        answer: dict[str, Any],
        messages: Sequence[Message],
        metadata: dict[str, str] | None,
        owner: int | None,
    ) -> None:
        listed = [_listed(message, f"{answer['id']}-{number}") for number, message in enumerate(messages)]
        self._put(StoredChat({**answer, "metadata": metadata or {}}, listed, owner))

    def find(self, chat_id: str, owner: int | None) -> StoredChat:
        found = self._store.get(chat_id, owner)
        if found is None:
            kept = f"those with store: true are kept, the last {self._store.max_objects:,}"
            message = f"there is no chat completion {chat_id[:100]!r}: {kept}, up to {self._store.max_bytes:,} bytes"
            raise ApiError(404, message, code="completion_not_found")
        return found

    def update(self, chat: StoredChat, metadata: dict[str, str]) -> None:
        chat.body = {**chat.body, "metadata": metadata}
        self._put(chat)

    def remove(self, chat: StoredChat) -> None:
        self._store.remove(chat.id, chat.owner)

    def of_owner(self, owner: int | None) -> list[StoredChat]:
        """Return the owner's completions in order of creation."""
        return self._store.of_owner(owner)

    def _put(self, chat: StoredChat) -> None:
        size = len(orjson.dumps(chat.body)) + len(orjson.dumps(chat.messages))
        self._store.put(chat.id, chat.owner, chat, size)


def _listed(message: Message, message_id: str) -> dict[str, Any]:
    plain = message.model_dump(exclude_none=True)
    content = plain.get("content")
    parts = content if isinstance(content, list) else None
    if parts is not None:
        content = "".join(part.get("text", "") for part in parts)
    return {"name": None, **plain, "id": message_id, "content": content, "content_parts": parts}


def stored_chats_of(request: Request) -> ChatStore:
    store: ChatStore = request.app.state.stored_chats
    return store
