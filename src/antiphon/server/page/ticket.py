"""`POST /page/ticket`: exchanges the ticket in the address that `antiphon serve --open` opened for the admin key."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from antiphon.server.page.handover import KeyHandover
from antiphon.server.web.access.admin_access import AdminAccess
from antiphon.server.web.access.hosts import is_loopback
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import ApiError

router = APIRouter()
MAX_BODY_BYTES = 1024


class TicketBody(BaseModel):
    ticket: str = Field(max_length=200)


@router.post("/page/ticket", include_in_schema=False)
async def exchange(request: Request) -> Response:
    """Return the key for a ticket, but only to this server's page in a browser on the same machine."""
    access: AdminAccess = request.app.state.admin_access
    access.check_page(request.scope)
    if request.client is None or not is_loopback(request.client.host):
        raise ApiError(403, "the key is given to browsers on the server's own machine only", code="not_local")
    body = await read_body(request, TicketBody, MAX_BODY_BYTES)
    handover: KeyHandover = request.app.state.key_handover
    return json_response({"admin_key": handover.redeem(body.ticket)})
