"""Messages and tools in the bodies of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Body, Unsupported
from antiphon.server.web.http.text_only import TEXT_ONLY, ReadsText

FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class TextContentPart(Body):
    type: Literal["text"]
    text: str


class InputAudio(Body):
    data: str  # base64
    format: Literal["wav", "mp3", "flac", "opus", "ogg", "aac", "m4a", "webm", "pcm16"]


class InputAudioPart(Body):
    """Sound, which is replaced by its transcript; in chats only."""

    type: Literal["input_audio"]
    input_audio: InputAudio


TextContent = str | list[Annotated[TextContentPart, ReadsText]]


class SystemMessage(Body):
    role: Literal["system", "developer"]
    content: TextContent
    name: str | None = None


class UserMessage(Body):
    unsupported: ClassVar[Mapping[str, Unsupported]] = {"images": Unsupported(TEXT_ONLY)}

    role: Literal["user"]
    content: str | list[Annotated[TextContentPart | InputAudioPart, Field(discriminator="type"), ReadsText]]
    name: str | None = None


class CalledFunction(Body):
    name: FunctionName
    arguments: str


class ToolCall(Body):
    id: str
    type: Literal["function"] | None = "function"
    function: CalledFunction
    index: int | None = None


class CustomCall(Body):
    name: FunctionName
    input: str


class CustomToolCall(Body):
    id: str
    type: Literal["custom"]
    custom: CustomCall
    index: int | None = None


def _call_type(value: Any) -> Any:
    """Return the type of a call: by default `function`."""
    return value.get("type", "function") if isinstance(value, dict) else getattr(value, "type", None)


AnyToolCall = Annotated[
    Annotated[ToolCall, Tag("function")] | Annotated[CustomToolCall, Tag("custom")], Discriminator(_call_type)
]


class AudioReference(Body):
    id: Annotated[str, Field(max_length=512)]
    #: Accepted as the server sent it; only the id is used.
    data: str | None = None
    expires_at: int | None = None
    transcript: str | None = None


class AssistantMessage(Body):
    """Message as the server sent it. Fields that clients send back empty are accepted."""

    unsupported: ClassVar[Mapping[str, Unsupported]] = {"prefix": Unsupported("use continue_final_message")}

    role: Literal["assistant"]
    content: TextContent | None = None
    reasoning_content: str | None = None
    tool_calls: list[AnyToolCall] | None = None
    name: str | None = None
    #: Used in place of an empty `content`.
    refusal: str | None = None
    audio: AudioReference | None = None
    #: Deprecated form of a tool call.
    function_call: CalledFunction | None = None
    annotations: list[Any] | None = None


class ToolMessage(Body):
    role: Literal["tool"]
    content: TextContent
    tool_call_id: str
    name: str | None = None


class FunctionMessage(Body):
    """Result of a `function_call`: the deprecated form of a `ToolMessage`."""

    role: Literal["function"]
    content: TextContent | None
    name: FunctionName


Message = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage | FunctionMessage, Field(discriminator="role")
]


class Function(Body):
    name: FunctionName
    description: str | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = None


class Tool(Body):
    type: Literal["function"]
    function: Function


class AnyText(Body):
    type: Literal["text"]


class InputGrammar(Body):
    syntax: Literal["lark", "regex"]
    definition: str


class GrammarText(Body):
    type: Literal["grammar"]
    grammar: InputGrammar


class Custom(Body):
    name: FunctionName
    description: str | None = None
    format: Annotated[AnyText | GrammarText, Field(discriminator="type")] | None = None


class CustomTool(Body):
    """A tool whose input is text, which may have to match a grammar."""

    type: Literal["custom"]
    custom: Custom


AnyTool = Annotated[Tool | CustomTool, Field(discriminator="type")]


class FunctionReference(Body):
    name: FunctionName


class NamedTool(Body):
    type: Literal["function"]
    function: FunctionReference


class NamedCustomTool(Body):
    type: Literal["custom"]
    custom: FunctionReference


class AllowedTools(Body):
    mode: Literal["auto", "required"]
    tools: Annotated[
        list[Annotated[NamedTool | NamedCustomTool, Field(discriminator="type")]], Field(min_length=1, max_length=1024)
    ]


class AllowedToolsChoice(Body):
    """Choice of the tools that may be called."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


ToolChoice = (
    Literal["none", "auto", "required"]
    | Annotated[NamedTool | NamedCustomTool | AllowedToolsChoice, Field(discriminator="type")]
)
