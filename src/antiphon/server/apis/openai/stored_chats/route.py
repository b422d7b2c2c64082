"""`/v1/chat/completions/{id}`: list, read, update and delete stored chat completions."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.chat.response_schemas import StoredChatAnswer, StoredChatsAnswer
from antiphon.server.apis.openai.stored_chats.schemas import ChatDeletedAnswer, StoredMessagesAnswer
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.chats import StoredChat, stored_chats_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import After, Limit, Order, page
from antiphon.server.web.http.schemas import MetadataBody, Name

router = APIRouter()

#: Metadata filter in the query, such as `metadata[topic]=demo`.
FILTER = re.compile(r"metadata\[(.{1,64})\]", re.DOTALL)


def _find(request: Request, completion_id: str) -> StoredChat:
    return stored_chats_of(request).find(completion_id, context_of(request).key)


@router.get("/v1/chat/completions")
@described(answer=StoredChatsAnswer)
async def list_chats(
    request: Request, after: After = None, limit: Limit = 20, order: Order = "asc", model: Name | None = None
) -> Response:
    """List the stored completions, optionally only those of a model or with given metadata (`metadata[key]=value`)."""
    found = [chat.body for chat in stored_chats_of(request).of_owner(context_of(request).key)]
    if model is not None:
        known = serving_of(request).models.named(model)
        name = model if known is None else known.name
        found = [body for body in found if body["model"] == name]
    for given, value in request.query_params.multi_items():
        key = FILTER.fullmatch(given)
        if key is not None:
            found = [body for body in found if body["metadata"].get(key[1]) == value]
    return json_response(page(found, after, limit, order))


@router.get("/v1/chat/completions/{completion_id}")
@described(answer=StoredChatAnswer)
async def get_chat(request: Request, completion_id: str) -> Response:
    return json_response(_find(request, completion_id).body)


@router.post("/v1/chat/completions/{completion_id}")
@described(body=MetadataBody, answer=StoredChatAnswer)
async def update_chat(request: Request, completion_id: str) -> Response:
    body = await read_body(request, MetadataBody, serving_of(request).config.limits.body_bytes)
    found = _find(request, completion_id)
    stored_chats_of(request).update(found, body.metadata or {})
    return json_response(found.body)


@router.delete("/v1/chat/completions/{completion_id}")
@described(answer=ChatDeletedAnswer)
async def delete_chat(request: Request, completion_id: str) -> Response:
    stored_chats_of(request).remove(_find(request, completion_id))
    return json_response({"id": completion_id, "object": "chat.completion.deleted", "deleted": True})


@router.get("/v1/chat/completions/{completion_id}/messages")
@described(answer=StoredMessagesAnswer)
async def list_messages(
    request: Request, completion_id: str, after: After = None, limit: Limit = 20, order: Order = "asc"
) -> Response:
    """List the messages of the completion's request."""
    return json_response(page(_find(request, completion_id).messages, after, limit, order))
