"""`ConversationStore`: conversations, each a list of items that responses add to."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from fastapi import Request

from antiphon.server.stored.bounded_store import BoundedStore
from antiphon.server.web.http.errors import ApiError, invalid


@dataclass
class StoredConversation:
    """Conversation of one owner. `items` are as the API lists them, each with an id."""

    owner: int | None
    metadata: dict[str, str]
    items: list[dict[str, Any]] = field(default_factory=list)
    id: str = field(default_factory=lambda: f"conv_{uuid.uuid4().hex}")
    created_at: int = field(default_factory=lambda: int(time.time()))

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "conversation",
            "created_at": self.created_at,
            "metadata": self.metadata,
        }


class ConversationStore:
    """Conversations, limited in number and bytes, with equal shares if several keys fill the store."""

    def __init__(self, max_conversations: int, max_bytes: int) -> None:
        self._store: BoundedStore[StoredConversation] = BoundedStore(max_conversations, max_bytes)

    def __len__(self) -> int:
        return len(self._store)

    def find(self, conversation_id: str, owner: int | None, param: str | None = None) -> StoredConversation:
        found = self._store.get(conversation_id, owner)
        if found is None:
            kept = f"the last {self._store.max_objects:,} are kept, up to {self._store.max_bytes:,} bytes"
            message = f"there is no conversation {conversation_id[:100]!r}: {kept}"
            raise ApiError(404, message, code="conversation_not_found", param=param)
        return found

    def extend(self, conversation: StoredConversation, items: Sequence[dict[str, Any]]) -> None:
        """Append items to the conversation, except those whose id it already has, and store it."""
        by_id = {item["id"]: item for item in conversation.items}
        for item in items:
            by_id.setdefault(item["id"], item)
        self._put(conversation, list(by_id.values()))

    def update(self, conversation: StoredConversation, metadata: dict[str, str]) -> None:
        conversation.metadata = metadata
        self._put(conversation, conversation.items)

    def remove_item(self, conversation: StoredConversation, item_id: str) -> None:
        item = find_item(conversation, item_id)
        self._put(conversation, [other for other in conversation.items if other is not item])

    def remove(self, conversation: StoredConversation) -> None:
        self._store.remove(conversation.id, conversation.owner)

    def _put(self, conversation: StoredConversation, items: list[dict[str, Any]]) -> None:
        size = len(orjson.dumps(items)) + len(orjson.dumps(conversation.body()))
        if size > self._store.max_bytes:
            message = f"the conversation would have {size:,} bytes; at most {self._store.max_bytes:,} are kept"
            raise invalid(message, "items", "conversation_too_large")
        conversation.items = items
        self._store.put(conversation.id, conversation.owner, conversation, size)


def find_item(conversation: StoredConversation, item_id: str) -> dict[str, Any]:
    found = next((item for item in conversation.items if item["id"] == item_id), None)
    if found is None:
        message = f"conversation {conversation.id} has no item {item_id[:100]!r}"
        raise ApiError(404, message, code="item_not_found", param="item_id")
    return found


def conversations_of(request: Request) -> ConversationStore:
    store: ConversationStore = request.app.state.conversations
    return store
