"""Events that a client may send, parsed and validated."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import orjson
from pydantic import Field, ValidationError

from antiphon.server.apis.realtime.audio_format import decode_base64
from antiphon.server.apis.realtime.session_schemas import Wire
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.web.bodies.body_size import check_structure
from antiphon.server.web.http.errors import ApiError

#: Maximum bytes of sound in an append, as in OpenAI's service.
MAX_APPEND_BYTES = 15 << 20
MAX_EVENT_ID = 512
#: Minimum characters of base64 that bypass the JSON parser, if they begin within the first MAX_AUDIO_START.
LONG_AUDIO = 1 << 16
MAX_AUDIO_START = 4096
AUDIO_FIELD = re.compile(r'"audio"\s*:\s*"')
ItemId = Annotated[str, Field(min_length=1, max_length=256)]


class SessionUpdateEvent(Wire):
    type: Literal["session.update"]
    session: dict[str, Any]


@dataclass(frozen=True)
class AppendEvent:
    """Sound in the session's input format."""

    data: bytes
    type: str = "input_audio_buffer.append"


class CommitEvent(Wire):
    type: Literal["input_audio_buffer.commit"]


class ClearEvent(Wire):
    type: Literal["input_audio_buffer.clear"]


class ClearOutputEvent(Wire):
    type: Literal["output_audio_buffer.clear"]


class CreateItemEvent(Wire):
    type: Literal["conversation.item.create"]
    item: dict[str, Any]
    previous_item_id: ItemId | None = None


class DeleteItemEvent(Wire):
    type: Literal["conversation.item.delete"]
    item_id: ItemId


class RetrieveItemEvent(Wire):
    type: Literal["conversation.item.retrieve"]
    item_id: ItemId


class TruncateItemEvent(Wire):
    type: Literal["conversation.item.truncate"]
    item_id: ItemId
    content_index: Annotated[int, Field(ge=0)] = 0
    audio_end_ms: Annotated[int, Field(ge=0, lt=2**31)]


class CreateResponseEvent(Wire):
    type: Literal["response.create"]
    response: dict[str, Any] | None = None


class CancelResponseEvent(Wire):
    type: Literal["response.cancel"]
    response_id: ItemId | None = None


ClientEvent = (
    SessionUpdateEvent
    | AppendEvent
    | CommitEvent
    | ClearEvent
    | ClearOutputEvent
    | CreateItemEvent
    | DeleteItemEvent
    | RetrieveItemEvent
    | TruncateItemEvent
    | CreateResponseEvent
    | CancelResponseEvent
)
APPEND = "input_audio_buffer.append"
SCHEMAS: Mapping[str, type[Any]] = {
    get_args(schema.model_fields["type"].annotation)[0]: schema
    for schema in (
        SessionUpdateEvent,
        CommitEvent,
        ClearEvent,
        ClearOutputEvent,
        CreateItemEvent,
        DeleteItemEvent,
        RetrieveItemEvent,
        TruncateItemEvent,
        CreateResponseEvent,
        CancelResponseEvent,
    )
}


class EventRejectedError(Exception):
    """Rejection of a client event, with the client's id of the event, or None if no id could be read."""

    def __init__(self, cause: WireError, event_id: str | None) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.event_id = event_id


def parse(message: str | bytes) -> tuple[ClientEvent, str | None]:
    """Return the event, and the client's id of it or None. Raises `EventRejectedError`. Blocks for a large message."""
    return _parse_long_append(message) or _parse_json(message)


def _parse_long_append(message: str | bytes) -> tuple[ClientEvent, str | None] | None:
    """Parse an append with long sound; return None for any other event.

    The sound is decoded from the message in chunks, because a JSON parser would keep the interpreter lock throughout.
    """
    if len(message) < LONG_AUDIO:
        return None
    try:
        text = message if isinstance(message, str) else message.decode()
    except UnicodeDecodeError:
        return None
    found = AUDIO_FIELD.search(text, 0, MAX_AUDIO_START)
    start, end = (found.end(), text.find('"', found.end())) if found is not None else (0, 0)
    if end - start < LONG_AUDIO or text.find("\\", start, end) >= 0:
        return None
    stand_in = uuid.uuid4().hex
    fields, event_id = _fields((text[:start] + stand_in + text[end:]).encode())
    if fields.get("type") != APPEND or fields.get("audio") != stand_in:  # the sound was in a nested field
        return None
    try:
        return AppendEvent(decode_base64(text, "audio", MAX_APPEND_BYTES, start, end)), event_id
    except WireError as error:
        raise EventRejectedError(error, event_id) from error


def _parse_json(message: str | bytes) -> tuple[ClientEvent, str | None]:
    fields, event_id = _fields(message.encode() if isinstance(message, str) else message)
    try:
        return _event(fields), event_id
    except WireError as error:
        raise EventRejectedError(error, event_id) from error


def _fields(data: bytes) -> tuple[dict[str, Any], str | None]:
    """Return the fields of the event, and the client's id of it or None."""
    try:
        check_structure(data)
        fields = orjson.loads(data)
    except ApiError as error:
        message, code = (text.replace("body", "event", 1) for text in (error.message, error.code))
        raise EventRejectedError(WireError(message, code=code), None) from error
    except ValueError as error:
        raise EventRejectedError(
            WireError(f"the event is not valid JSON: {error}", code="invalid_json"), None
        ) from error
    if not isinstance(fields, dict):
        raise EventRejectedError(WireError("an event is a JSON object", code="invalid_json"), None)
    given = fields.get("event_id")
    return fields, given[:MAX_EVENT_ID] if isinstance(given, str) else None


def _event(fields: dict[str, Any]) -> ClientEvent:
    kind = fields.get("type")
    if kind is None:
        raise WireError("the event has no type", "type", "missing_required_parameter")
    if kind == APPEND:
        return _append(fields)
    schema = SCHEMAS.get(kind) if isinstance(kind, str) else None
    if schema is None:
        known = ", ".join(sorted([*SCHEMAS, APPEND]))
        raise WireError(f"there is no client event {str(kind)[:100]!r}; there are {known}", "type")
    try:
        event: ClientEvent = schema.model_validate(fields)
    except ValidationError as error:
        raise WireError.of_validation(error) from error
    return event


def _append(fields: dict[str, Any]) -> AppendEvent:
    audio = fields.get("audio")
    if audio is None:
        raise WireError("audio is missing", "audio", "missing_required_parameter")
    if not isinstance(audio, str):
        raise WireError("audio must be a string of base64", "audio", "invalid_type")
    return AppendEvent(decode_base64(audio, "audio", MAX_APPEND_BYTES))
