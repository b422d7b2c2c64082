"""Messages and tools in the bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from antiphon.server.http.schemas import Body, Unsupported

FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class TextPart(Body):
    type: Literal["text"]
    text: str


class InputAudio(Body):
    data: str  # base64
    format: Literal["wav", "mp3", "flac", "opus", "ogg", "aac", "m4a", "webm", "pcm16"]


class InputAudioPart(Body):
    """Sound, which becomes the text that it says; in chats only."""

    type: Literal["input_audio"]
    input_audio: InputAudio


TextContent = str | list[TextPart]


class SystemMessage(Body):
    role: Literal["system", "developer"]
    content: TextContent
    name: str | None = None


class UserMessage(Body):
    unsupported: ClassVar[Mapping[str, Unsupported]] = {"images": Unsupported("no model here reads images")}

    role: Literal["user"]
    content: str | list[Annotated[TextPart | InputAudioPart, Field(discriminator="type")]]
    name: str | None = None


class FunctionCall(Body):
    name: FunctionName
    arguments: str


class ToolCall(Body):
    id: str
    type: Literal["function"] | None = "function"
    function: FunctionCall
    index: int | None = None


class AudioReference(Body):
    id: Annotated[str, Field(max_length=512)]
    #: As the server sent it; only the id is used.
    data: str | None = None
    expires_at: int | None = None
    transcript: str | None = None


class AssistantMessage(Body):
    """As the server gave it: fields that clients send back empty are taken."""

    unsupported: ClassVar[Mapping[str, Unsupported]] = {"prefix": Unsupported("use continue_final_message")}

    role: Literal["assistant"]
    content: TextContent | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    #: Read in place of `content`, where there is none.
    refusal: str | None = None
    audio: AudioReference | None = None
    function_call: None = None
    annotations: list[Any] | None = None


class ToolMessage(Body):
    role: Literal["tool"]
    content: TextContent
    tool_call_id: str
    name: str | None = None


Message = Annotated[SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Function(Body):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Body):
    type: Literal["function"]
    function: Function


class FunctionReference(Body):
    name: FunctionName


class NamedTool(Body):
    type: Literal["function"]
    function: FunctionReference
