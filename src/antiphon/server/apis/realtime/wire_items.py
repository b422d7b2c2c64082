"""Items of a conversation on the wire: as clients create them, and as the server sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from antiphon.runtime.voice.items import (
    FunctionCall,
    FunctionOutput,
    Item,
    Message,
    Part,
    Role,
    SoundPart,
    TextPart,
    new_id,
)
from antiphon.server.apis.realtime.audio_format import AudioFormat, decode_base64, decoded_sound
from antiphon.server.apis.realtime.client_events import MAX_APPEND_BYTES, ItemId
from antiphon.server.apis.realtime.session_schemas import ToolName, Wire
from antiphon.server.apis.realtime.wire_errors import WireError


class WireContent(Wire):
    type: Literal["input_text", "input_audio", "output_text", "output_audio", "text", "audio", "input_image"]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None


class WireMessage(Wire):
    type: Literal["message"]
    id: ItemId | None = None
    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[list[WireContent], Field(max_length=256)]


class WireFunctionCall(Wire):
    type: Literal["function_call"]
    id: ItemId | None = None
    call_id: ItemId | None = None
    name: ToolName
    arguments: str


class WireFunctionOutput(Wire):
    type: Literal["function_call_output"]
    id: ItemId | None = None
    call_id: ItemId
    output: str


SCHEMAS: Mapping[str, type[Wire]] = {
    "message": WireMessage,
    "function_call": WireFunctionCall,
    "function_call_output": WireFunctionOutput,
}
REFERENCE = "item_reference"


def item_from(fields: Mapping[str, Any], format: AudioFormat, param: str = "item") -> Item:
    """Build the item that a client creates; sound is in the session's input format. Blocks if there is much sound."""
    kind = fields.get("type")
    schema = SCHEMAS.get(kind) if isinstance(kind, str) else None
    if schema is None:
        known = ", ".join(SCHEMAS)
        raise WireError(f"{param}.type is {str(kind)[:100]!r}; it must be one of {known}", f"{param}.type")
    try:
        item = schema.model_validate(dict(fields))
    except ValidationError as error:
        raise WireError.of_validation(error, param) from error
    if isinstance(item, WireFunctionCall):
        return FunctionCall(item.id or new_id("item"), item.call_id or new_id("call"), item.name, item.arguments)
    if isinstance(item, WireFunctionOutput):
        return FunctionOutput(item.id or new_id("item"), item.call_id, item.output)
    assert isinstance(item, WireMessage)
    role = Role.SYSTEM if item.role in ("system", "developer") else Role(item.role)
    parts = [_part(part, role, format, f"{param}.content.{index}") for index, part in enumerate(item.content)]
    return Message(item.id or new_id("item"), role, tuple(parts))


def _part(part: WireContent, role: Role, format: AudioFormat, param: str) -> Part:
    if part.type == "input_image":
        raise WireError("no model here reads images", f"{param}.type", "unsupported_value")
    is_sound = part.type in ("input_audio", "output_audio", "audio")
    if role is Role.SYSTEM and is_sound:
        raise WireError("a system message has text only", f"{param}.type")
    if part.type.startswith("output_") != (role is Role.ASSISTANT) and part.type not in ("text", "audio"):
        raise WireError(f"a message of the {role} has no {part.type}", f"{param}.type")
    if not is_sound:
        if part.text is None:
            raise WireError(f"{param}.text is missing", f"{param}.text", "missing_required_parameter")
        return TextPart(part.text)
    if role is Role.ASSISTANT or part.audio is None:
        if part.transcript is None:
            raise WireError(f"{param} has no transcript", f"{param}.transcript", "missing_required_parameter")
        return SoundPart(part.transcript)
    data = decode_base64(part.audio, f"{param}.audio", MAX_APPEND_BYTES)
    return SoundPart(part.transcript, format.seconds(len(data)), decoded_sound(data, format))


def wire_item(item: Item) -> dict[str, Any]:
    """Return an item as the server sends it, without its sound."""
    base = {"id": item.id, "object": "realtime.item", "status": str(item.status)}
    if isinstance(item, FunctionCall):
        call = {"name": item.name, "call_id": item.call_id, "arguments": item.arguments}
        return {**base, "type": "function_call", **call}
    if isinstance(item, FunctionOutput):
        return {**base, "type": "function_call_output", "call_id": item.call_id, "output": item.output}
    content = [_wire_part(part, item.role) for part in item.parts]
    return {**base, "type": "message", "role": str(item.role), "content": content}


def _wire_part(part: Part, role: Role) -> dict[str, Any]:
    side = "output" if role is Role.ASSISTANT else "input"
    if isinstance(part, TextPart):
        return {"type": f"{side}_text", "text": part.text}
    return {"type": f"{side}_audio", "transcript": part.transcript}


def size_of(item: Item) -> int:
    """Estimate the bytes that an item holds."""
    if isinstance(item, FunctionCall):
        return len(item.arguments) + len(item.name)
    if isinstance(item, FunctionOutput):
        return len(item.output)
    texts = sum(len(part.text if isinstance(part, TextPart) else part.transcript or "") for part in item.parts)
    sounds = [part.samples for part in item.parts if isinstance(part, SoundPart)]
    return texts + sum(samples.nbytes for samples in sounds if samples is not None)
