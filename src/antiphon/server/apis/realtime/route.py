"""`/v1/realtime`: voice conversations over a WebSocket, in the format of OpenAI's Realtime API."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, WebSocket

from antiphon.audio.echo import EchoGuard
from antiphon.runtime.voice.items import new_id
from antiphon.runtime.voice.session import VoiceSession
from antiphon.server.apis.realtime.address import api_error_of, first_config
from antiphon.server.apis.realtime.connection import RealtimeConnection, last_message
from antiphon.server.apis.realtime.model_names import with_served_names
from antiphon.server.apis.realtime.session_config import SessionConfig
from antiphon.server.apis.realtime.settings_check import SettingsCheck
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import ApiError, invalid

router = APIRouter()
SUBPROTOCOL = "realtime"


@router.get("/v1/realtime")
async def plain_request() -> None:
    """Refuse a plain request with 426: voice conversations need a WebSocket (see docs/realtime.md)."""
    headers = {"upgrade": "websocket", "connection": "upgrade"}
    message = "/v1/realtime is a WebSocket; connect with ws:// or wss://"
    raise ApiError(426, message, code="upgrade_required", headers=headers)


@router.websocket("/v1/realtime")
async def realtime(websocket: WebSocket) -> None:
    serving: Serving = websocket.app.state.serving
    context: RequestContext = websocket.scope["context"]
    config = _first_config(websocket, serving, context.secret_session or {})
    context.log_fields["model"] = config.model
    services = websocket.app.state.voice_services(serving, config.id)
    context.at_end.append(services.close)
    settings = with_served_names(serving.models, config.settings())
    session = VoiceSession(services, settings, echo=EchoGuard())
    check = SettingsCheck(serving.models, services)
    if context.secret_session:
        await _check(check, config)
    offered = websocket.scope["subprotocols"]
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    shared = websocket.app.state.realtime_input
    connection = RealtimeConnection(websocket, config, session, serving, context, check, shared)
    context.on_draining = connection.drain
    context.last_message = last_message
    await connection.run()


def _first_config(websocket: WebSocket, serving: Serving, given: dict[str, Any]) -> SessionConfig:
    """Return the session of the address and the client secret. Raises `ApiError` if its model is unknown."""
    query = websocket.query_params
    if query.get("call_id"):
        raise invalid("calls by SIP or WebRTC are not supported", "call_id", "unsupported_value")
    expires = int(time.time() + serving.config.limits.sessions.seconds)
    return first_config(serving, new_id("sess"), query.get("intent"), query.get("model"), given, expires)


async def _check(check: SettingsCheck, config: SessionConfig) -> None:
    """Check that the session of a client secret can be served, and load its turn detector. Raises `ApiError`."""
    try:
        await check.update(SessionConfig(config.id, config.model, 0, is_transcription=config.is_transcription), config)
    except WireError as error:
        raise api_error_of(error) from error
