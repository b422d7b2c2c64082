"""`/v1/responses/{id}`: read, cancel and delete a response, and list its input items."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from antiphon.server.apis.responses.replay import replay
from antiphon.server.apis.responses.response_schemas import DeletedAnswer, InputItemsAnswer, ResponseAnswer
from antiphon.server.apis.responses.store import CANCELLED, StoredResponse, store_of
from antiphon.server.web.http.connection import EventStream, json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import named_event
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.paging import After, Limit, Order, page

router = APIRouter()


@router.get("/v1/responses/{response_id}")
@described(answer=ResponseAnswer, can_stream=True)
async def get_response(
    request: Request,
    response_id: str,
    stream: bool = False,
    starting_after: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    include_obfuscation: bool | None = None,
) -> Response:
    """Return a response, or with `stream` its events after `starting_after`. `include_obfuscation` has no effect."""
    store, owner = store_of(request), context_of(request).key
    running = store.find_running(response_id, owner)
    first = 0 if starting_after is None or not stream else starting_after + 1
    if running is not None:
        if not stream:
            return json_response(running.snapshot())
        if running.log is None:
            message = "the response is being sent to the request that made it; its stream can be read when it has ended"
            raise ApiError(409, message, code="response_in_progress", param="stream")
        return EventStream(running.log.follow(first), lambda: None)
    stored = store.find(response_id, owner)
    if not stream:
        return json_response(stored.body)
    return EventStream(_replayed(stored, first), lambda: None)


async def _replayed(stored: StoredResponse, first: int) -> AsyncGenerator[bytes, None]:
    for event in islice(replay(stored.body, stored.cuts), first, None):
        yield named_event(event["type"], event)


@router.delete("/v1/responses/{response_id}")
@described(answer=DeletedAnswer)
async def delete_response(request: Request, response_id: str) -> Response:
    store_of(request).remove(response_id, context_of(request).key)
    return json_response({"id": response_id, "object": "response", "deleted": True})


@router.post("/v1/responses/{response_id}/cancel")
@described(answer=ResponseAnswer)
async def cancel_response(request: Request, response_id: str) -> Response:
    """Cancel a response being generated; its output so far is kept. Cancelling twice changes nothing."""
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
@described(answer=InputItemsAnswer)
async def input_items(
    request: Request, response_id: str, after: After = None, limit: Limit = 20, order: Order = "desc"
) -> Response:
    """List the items that the response answers, including those of earlier turns."""
    stored = store_of(request).find(response_id, context_of(request).key)
    return json_response(page(stored.inputs, after, limit, order))
