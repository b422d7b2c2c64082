"""`/v1/conversations`: lists of items that responses read and extend."""

from __future__ import annotations

from typing import TypeVar

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.responses.compaction import unpack
from antiphon.server.apis.responses.conversation_schemas import (
    ConversationAnswer,
    ConversationBody,
    ConversationDeletedAnswer,
    ConversationItemsBody,
)
from antiphon.server.apis.responses.items import listed
from antiphon.server.apis.responses.response_schemas import InputItemsAnswer, ItemAnswer
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.conversations import StoredConversation, conversations_of, find_item
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import After, Limit, Order, page
from antiphon.server.web.http.schemas import Body, MetadataBody

router = APIRouter()

Given = TypeVar("Given", bound=Body)


async def _read(request: Request, model: type[Given]) -> Given:
    return await read_body(request, model, serving_of(request).config.limits.body_bytes)


def _find(request: Request, conversation_id: str) -> StoredConversation:
    return conversations_of(request).find(conversation_id, context_of(request).key)


@router.post("/v1/conversations")
@described(body=ConversationBody, answer=ConversationAnswer)
async def create_conversation(request: Request) -> Response:
    body = await _read(request, ConversationBody)
    made = StoredConversation(context_of(request).key, body.metadata or {})
    await unpack(body.items or ())
    conversations_of(request).extend(made, [listed(item) for item in body.items or ()])
    return json_response(made.body())


@router.get("/v1/conversations/{conversation_id}")
@described(answer=ConversationAnswer)
async def get_conversation(request: Request, conversation_id: str) -> Response:
    return json_response(_find(request, conversation_id).body())


@router.post("/v1/conversations/{conversation_id}")
@described(body=MetadataBody, answer=ConversationAnswer)
async def update_conversation(request: Request, conversation_id: str) -> Response:
    body = await _read(request, MetadataBody)
    found = _find(request, conversation_id)
    conversations_of(request).update(found, body.metadata or {})
    return json_response(found.body())


@router.delete("/v1/conversations/{conversation_id}")
@described(answer=ConversationDeletedAnswer)
async def delete_conversation(request: Request, conversation_id: str) -> Response:
    conversations_of(request).remove(_find(request, conversation_id))
    return json_response({"id": conversation_id, "object": "conversation.deleted", "deleted": True})


@router.post("/v1/conversations/{conversation_id}/items")
@described(body=ConversationItemsBody, answer=InputItemsAnswer)
async def add_items(request: Request, conversation_id: str) -> Response:
    body = await _read(request, ConversationItemsBody)
    await unpack(body.items)
    items = [listed(item) for item in body.items]
    conversations_of(request).extend(_find(request, conversation_id), items)
    return json_response(page(items, None, len(items)))


@router.get("/v1/conversations/{conversation_id}/items")
@described(answer=InputItemsAnswer)
async def list_items(
    request: Request, conversation_id: str, after: After = None, limit: Limit = 20, order: Order = "desc"
) -> Response:
    return json_response(page(_find(request, conversation_id).items, after, limit, order))


@router.get("/v1/conversations/{conversation_id}/items/{item_id}")
@described(answer=ItemAnswer)
async def get_item(request: Request, conversation_id: str, item_id: str) -> Response:
    return json_response(find_item(_find(request, conversation_id), item_id))


@router.delete("/v1/conversations/{conversation_id}/items/{item_id}")
@described(answer=ConversationAnswer)
async def delete_item(request: Request, conversation_id: str, item_id: str) -> Response:
    """Delete an item, and return the conversation."""
    found = _find(request, conversation_id)
    conversations_of(request).remove_item(found, item_id)
    return json_response(found.body())
