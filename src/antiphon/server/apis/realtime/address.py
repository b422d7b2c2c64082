"""First configuration of a session, from its address and the client secret that opened it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antiphon.server.apis.realtime.model_names import DEFAULTS, check_model
from antiphon.server.apis.realtime.session_config import SessionConfig
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import ApiError, invalid

MAX_NAME = 512


def first_config(
    serving: Serving,
    session_id: str,
    intent: str | None,
    name: str | None,
    given: Mapping[str, Any],
    expires_at: int,
) -> SessionConfig:
    """Build a session's first configuration from its address and the session of its client secret.

    `intent` and `name` come from the address, `given` from the secret. Raises `ApiError` if the model is unknown.
    """
    if intent not in (None, "", "transcription", "conversation"):
        raise invalid(f"intent is {intent[:100]!r}; it must be transcription or absent", "intent")
    if name is not None and not 1 <= len(name) <= MAX_NAME:
        raise invalid(f"model has {len(name)} characters; it must have 1 to {MAX_NAME}", "model")
    is_transcription = intent == "transcription" or (not intent and given.get("type") == "transcription")
    task = "transcribe" if is_transcription else "generate"
    given_name = given.get("model")
    asked = name or (given_name if isinstance(given_name, str) and not is_transcription else None) or DEFAULTS[task]
    config = SessionConfig(session_id, asked, expires_at, is_transcription=is_transcription)
    try:
        check_model(serving.models, asked, task, "model")
        if not given:
            return config
        update = {key: value for key, value in given.items() if key not in ("type", "model")}
        if isinstance(given_name, str) and not is_transcription:
            update["model"] = asked
        return config.updated(update)
    except WireError as error:
        raise api_error_of(error) from error


def check_served(serving: Serving, config: SessionConfig) -> None:
    """Raise `ApiError` unless the session's transcription model is served."""
    try:
        check_model(serving.models, config.transcription_model, "transcribe", "session.audio.input.transcription.model")
    except WireError as error:
        raise api_error_of(error) from error


def api_error_of(error: WireError) -> ApiError:
    status = 404 if error.code == "model_not_found" else 400
    return ApiError(status, error.message, code=error.code, param=error.param)
