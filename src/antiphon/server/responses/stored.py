"""`/v1/responses/{id}`: reading, deleting and cancelling a response, and its input items."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from antiphon.server.http.connection import json_response
from antiphon.server.http.context import context_of
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.responses.store import CANCELLED, store_of

router = APIRouter()


@router.get("/v1/responses/{response_id}")
async def get_response(request: Request, response_id: str, stream: bool = False) -> Response:
    if stream:
        raise invalid("a stored response cannot be streamed", "stream", "unsupported_value")
    store, owner = store_of(request), context_of(request).key
    running = store.find_running(response_id, owner)
    return json_response(running.snapshot() if running else store.find(response_id, owner).body)


@router.delete("/v1/responses/{response_id}")
async def delete_response(request: Request, response_id: str) -> Response:
    store_of(request).remove(response_id, context_of(request).key)
    return json_response({"id": response_id, "object": "response", "deleted": True})


@router.post("/v1/responses/{response_id}/cancel")
async def cancel_response(request: Request, response_id: str) -> Response:
    """End a response that is being written; its stream tells how far it came. Cancelling twice changes nothing."""
    store, owner = store_of(request), context_of(request).key
    running = store.find_running(response_id, owner)
    if running is not None:
        running.cancel()
        return json_response({**running.snapshot(), "status": CANCELLED})
    stored = store.find(response_id, owner)
    if stored.body["status"] != CANCELLED:
        message = f"the response has ended with status {stored.body['status']}"
        raise ApiError(400, message, code="response_ended", param="response_id")
    return json_response(stored.body)


@router.get("/v1/responses/{response_id}/input_items")
async def input_items(
    request: Request,
    response_id: str,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
) -> Response:
    """All that the response answers, earlier turns included."""
    stored = store_of(request).find(response_id, context_of(request).key)
    items = stored.inputs if order == "asc" else stored.inputs[::-1]
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise invalid(f"no input item has the id {after[:100]!r}", "after")
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": "", "last_id": ""}
    return json_response({"object": "list", "data": page, **ends, "has_more": len(items) > limit})
