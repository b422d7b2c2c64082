"""`GET /admin/events`: the engine's activity as server-sent events, without any text of requests."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.serving.admin.activity_hub import ActivityHub
from antiphon.server.web.http.connection import EventStream
from antiphon.server.web.http.context import context_of

router = APIRouter(prefix="/admin", include_in_schema=False)


@router.get("/events")
async def events(request: Request) -> Response:
    """Send a snapshot, then all events, until the client disconnects or the server shuts down."""
    hub: ActivityHub = request.app.state.activity
    listener = hub.add()
    context = context_of(request)
    context.on_draining, context.is_watching = listener.close, True
    return EventStream(hub.stream(listener), lambda: hub.remove(listener))
