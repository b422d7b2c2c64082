"""Schemas of requests and answers about conversations."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from antiphon.server.apis.responses.request_schemas import Item
from antiphon.server.web.http.schemas import AnswerBody, Body, Metadata

#: Maximum items of one request, as in OpenAI's API.
MAX_ITEMS = 20


class ConversationBody(Body):
    items: Annotated[list[Item], Field(max_length=MAX_ITEMS)] | None = None
    metadata: Metadata | None = None


class ConversationItemsBody(Body):
    items: Annotated[list[Item], Field(min_length=1, max_length=MAX_ITEMS)]


class ConversationAnswer(AnswerBody):
    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, str]


class ConversationDeletedAnswer(AnswerBody):
    id: str
    object: Literal["conversation.deleted"]
    deleted: bool
