"""`POST /v1/realtime/client_secrets`: creates a key for a browser, and the session that it opens."""

from __future__ import annotations

import time
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import Field

from antiphon.runtime.voice.items import new_id
from antiphon.server.apis.realtime.address import check_served, first_config
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.access.client_secrets import DEFAULT_SECONDS, MAX_SECONDS, MIN_SECONDS, ClientSecrets
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.schemas import AnswerBody, Body

router = APIRouter()


class SecretExpiry(Body):
    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[int, Field(ge=MIN_SECONDS, le=MAX_SECONDS)] | None = None


class ClientSecretBody(Body):
    """Expiry of the secret, and the settings, as in `session.update`, with which its session begins."""

    expires_after: SecretExpiry | None = None
    session: dict[str, Any] | None = None


class ClientSecretAnswer(AnswerBody):
    value: str
    expires_at: int
    session: dict[str, Any]


@router.post("/v1/realtime/client_secrets")
@described(body=ClientSecretBody, answer=ClientSecretAnswer)
async def create_client_secret(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, ClientSecretBody, serving.config.limits.body_bytes)
    seconds = (body.expires_after.seconds if body.expires_after is not None else None) or DEFAULT_SECONDS
    session = body.session or {}
    config = first_config(serving, new_id("sess"), None, None, session, int(time.time()) + seconds)
    check_served(serving, config)
    store: ClientSecrets = request.app.state.client_secrets
    value, secret = store.create(context_of(request).key, session, len(orjson.dumps(session)), seconds)
    return json_response({"value": value, "expires_at": secret.expires_at, "session": config.wire()})
