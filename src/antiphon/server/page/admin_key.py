"""`POST /page/admin-key`: gives the page the admin token that the server made for its own user."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from antiphon.server.page.handover import KeyHandover
from antiphon.server.web.access.local_page import check_local_page
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response

router = APIRouter()
MAX_BODY_BYTES = 1024
#: Keeps the token out of caches, and out of the processes of other sites' pages.
HEADERS = {"cache-control": "no-store", "cross-origin-resource-policy": "same-origin"}


class AdminKeyBody(BaseModel):
    ticket: str | None = Field(None, max_length=200)


@router.post("/page/admin-key", include_in_schema=False)
async def admin_key(request: Request) -> Response:
    """Return the token for a ticket or, without a ticket, to a browser of the server's user; otherwise 403."""
    handover: KeyHandover = request.app.state.key_handover
    handover.token()  # first: without a token, no other check matters to the user
    check_local_page(request.scope, takes_names=handover.owns_names)
    body = await read_body(request, AdminKeyBody, MAX_BODY_BYTES)
    token = await handover.give(request.scope) if body.ticket is None else handover.redeem(body.ticket)
    response = json_response({"admin_key": token})
    response.headers.update(HEADERS)
    return response
