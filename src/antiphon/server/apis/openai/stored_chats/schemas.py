"""Response schemas of stored chat completions."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.web.http.schemas import AnswerBody


class StoredMessage(AnswerBody):
    """A message of the completion's request."""

    id: str
    role: str
    content: str | None
    content_parts: list[dict[str, Any]] | None
    name: str | None
    reasoning_content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    audio: dict[str, Any] | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None
    function_call: dict[str, Any] | None = None


class StoredMessagesAnswer(AnswerBody):
    object: Literal["list"]
    data: list[StoredMessage]
    first_id: str
    last_id: str
    has_more: bool


class ChatDeletedAnswer(AnswerBody):
    id: str
    object: Literal["chat.completion.deleted"]
    deleted: bool
