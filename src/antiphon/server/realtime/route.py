"""`/v1/realtime`: conversations by voice over a WebSocket, in the format of OpenAI's Realtime API."""

from __future__ import annotations

import time

from fastapi import APIRouter, WebSocket

from antiphon.audio.echo import EchoGuard
from antiphon.runtime.voice.items import new_id
from antiphon.runtime.voice.session import VoiceSession
from antiphon.server.http.context import RequestContext
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.realtime.connection import RealtimeConnection, last_message
from antiphon.server.realtime.model_names import DEFAULTS, check_model, with_served_names
from antiphon.server.realtime.session_config import SessionConfig
from antiphon.server.realtime.settings_check import SettingsCheck
from antiphon.server.realtime.wire_errors import WireError
from antiphon.server.serving.serving import Serving

router = APIRouter()
SUBPROTOCOL = "realtime"
MAX_NAME = 512


@router.get("/v1/realtime")
async def plain_request() -> None:
    """Conversations by voice over a WebSocket: see docs/realtime.md. A plain request is answered with 426."""
    headers = {"upgrade": "websocket", "connection": "upgrade"}
    message = "/v1/realtime is a WebSocket; connect with ws:// or wss://"
    raise ApiError(426, message, code="upgrade_required", headers=headers)


@router.websocket("/v1/realtime")
async def realtime(websocket: WebSocket) -> None:
    serving: Serving = websocket.app.state.serving
    context: RequestContext = websocket.scope["context"]
    config = _config(websocket, serving)
    context.log_fields["model"] = config.model
    services = websocket.app.state.voice_services(serving, config.id)
    context.at_end.append(services.close)
    settings = with_served_names(serving.models, config.settings())
    session = VoiceSession(services, settings, echo=EchoGuard())
    offered = websocket.scope["subprotocols"]
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    check = SettingsCheck(serving.models, services)
    connection = RealtimeConnection(websocket, config, session, serving, context, check)
    context.on_draining = connection.drain
    context.last_message = last_message
    await connection.run()


def _config(websocket: WebSocket, serving: Serving) -> SessionConfig:
    """What the address asks for. Raises for a model that there is not."""
    query = websocket.query_params
    intent, name = query.get("intent"), query.get("model")
    if query.get("call_id"):
        raise invalid("calls by SIP or WebRTC are not supported", "call_id", "unsupported_value")
    if intent not in (None, "", "transcription", "conversation"):
        raise invalid(f"intent is {intent[:100]!r}; it must be transcription or absent", "intent")
    if name is not None and not 1 <= len(name) <= MAX_NAME:
        raise invalid(f"model has {len(name)} characters; it must have 1 to {MAX_NAME}", "model")
    is_transcription = intent == "transcription"
    task = "transcribe" if is_transcription else "generate"
    try:
        check_model(serving.models, name or DEFAULTS[task], task, "model")
    except WireError as error:
        status = 404 if error.code == "model_not_found" else 400
        raise ApiError(status, error.message, code=error.code, param="model") from error
    expires = int(time.time() + serving.config.limits.sessions.seconds)
    return SessionConfig(new_id("sess"), name or DEFAULTS[task], expires, is_transcription=is_transcription)
