"""`/admin/requests`: list the requests in flight, and cancel them."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import CLIENT_CLOSED_REQUEST, RequestContext, context_of
from antiphon.server.web.http.errors import ApiError

router = APIRouter(prefix="/admin", include_in_schema=False)


@router.get("/requests")
async def list_requests(request: Request) -> Response:
    own = context_of(request)
    requests = [context for context in serving_of(request).requests if context is not own]
    return json_response({"requests": [_request_card(context) for context in requests]})


@router.delete("/requests/{request_id:path}")
async def cancel_request(request: Request, request_id: str) -> Response:
    """Cancel every request with this id; its client gets an error."""
    own = context_of(request)
    found = [other for other in serving_of(request).requests if other.request_id == request_id and other is not own]
    if not found:
        raise ApiError(404, f"no request with the id {request_id[:200]!r} is in flight", code="request_not_found")
    for context in found:
        message = "the request was cancelled by an administrator"
        context.end_with(ApiError(CLIENT_CLOSED_REQUEST, message, code="cancelled"))
    return json_response({"cancelled": len(found)})


def _request_card(context: RequestContext) -> dict[str, Any]:
    seconds = context.seconds
    return {
        "id": context.request_id,
        "method": context.method,
        "path": context.path,
        "key": context.key,
        "model": context.log_fields.get("model"),
        "started": time.time() - seconds,
        "seconds": round(seconds, 3),
        "is_streaming": context.is_event_stream,
    }
