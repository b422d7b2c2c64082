"""Request bodies of `POST /v1/messages` and `/v1/messages/count_tokens`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from antiphon.server.apis.anthropic.tool_schemas import CacheControl, ClientTool
from antiphon.server.generation.parameters.messages import FunctionName
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Body, KeepAlive, Name, Priority
from antiphon.server.web.http.text_only import ReadsText, text_only_error

#: Error for a block of another type, for instance of a tool that Anthropic's service runs.
UNSUPPORTED = "only blocks of type {} are supported in this place"


def _type(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else getattr(value, "type", None)


def _one_of(kinds: str) -> Discriminator:
    message = UNSUPPORTED.format(kinds)
    return Discriminator(_type, custom_error_type="unsupported_block", custom_error_message=message)


def _check_text(value: Any) -> Any:
    if _type(value) != "text":
        raise PydanticCustomError("unsupported_block", UNSUPPORTED.format("text"))
    return value


class CachedBlock(Body):
    #: Accepted without effect: prefixes are always cached.
    cache_control: CacheControl | None = None


class TextBlock(CachedBlock):
    type: Literal["text"]
    text: str
    citations: list[Any] | None = None


OnlyText = Annotated[TextBlock, BeforeValidator(_check_text), ReadsText]


class PlainSource(Body):
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str

    @property
    def text(self) -> str:
        return self.data


class ContentSource(Body):
    type: Literal["content"]
    content: str | list[OnlyText]

    @property
    def text(self) -> str:
        return self.content if isinstance(self.content, str) else "".join(block.text for block in self.content)


class Citations(Body):
    enabled: bool | None = None


def _check_source(value: Any) -> Any:
    if _type(value) in ("base64", "url", "file"):
        raise text_only_error()
    return value


class DocumentBlock(CachedBlock):
    """A text document, read as its title, its context and its text."""

    type: Literal["document"]
    source: Annotated[PlainSource | ContentSource, Field(discriminator="type"), BeforeValidator(_check_source)]
    title: str | None = None
    context: str | None = None
    #: Accepted without effect: answers contain no citations.
    citations: Citations | None = None

    @property
    def text(self) -> str:
        """Text that the model reads, ending with an empty line, because blocks are joined without a separator."""
        return "".join(f"{part}\n\n" for part in (self.title, self.context, self.source.text) if part)


class ThinkingBlock(Body):
    """Earlier reasoning; the model's chat template decides whether the model reads it again."""

    type: Literal["thinking"]
    thinking: str
    signature: str | None = None


class RedactedThinkingBlock(Body):
    """Encrypted reasoning, which is dropped."""

    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(CachedBlock):
    type: Literal["tool_use"]
    id: str
    name: FunctionName
    input: dict[str, Any]
    caller: dict[str, Any] | None = None


class ToolReferenceBlock(CachedBlock):
    """A tool found by a search, which is among the request's tools from then on."""

    type: Literal["tool_reference"]
    tool_name: FunctionName

    @property
    def text(self) -> str:
        return f"The tool {self.tool_name} is available now.\n"


ResultBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[ToolReferenceBlock, Tag("tool_reference")],
    _one_of("text, document and tool_reference"),
    ReadsText,
]


class ToolResultBlock(CachedBlock):
    type: Literal["tool_result"]
    tool_use_id: str
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = None


UserBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[DocumentBlock, Tag("document")]
    | Annotated[ToolResultBlock, Tag("tool_result")],
    _one_of("text, document and tool_result"),
    ReadsText,
]
AssistantBlock = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ThinkingBlock, Tag("thinking")]
    | Annotated[RedactedThinkingBlock, Tag("redacted_thinking")]
    | Annotated[ToolUseBlock, Tag("tool_use")],
    _one_of("text, thinking and tool_use"),
]


class UserTurn(Body):
    role: Literal["user"]
    content: str | list[UserBlock]


class AssistantTurn(Body):
    role: Literal["assistant"]
    content: str | list[AssistantBlock]


class SystemTurn(Body):
    role: Literal["system"]
    content: str | list[OnlyText]


Turn = Annotated[UserTurn | AssistantTurn | SystemTurn, Field(discriminator="role")]


class AutoChoice(Body):
    """A choice that names no tool: `any` requires a call, `none` forbids calls."""

    type: Literal["auto", "any", "none"]
    disable_parallel_tool_use: bool | None = None


class NamedToolChoice(Body):
    type: Literal["tool"]
    name: FunctionName
    disable_parallel_tool_use: bool | None = None


class Thinking(Body):
    """Reasoning on or off, if the chat template supports both. A budget is accepted without effect."""

    type: Literal["enabled", "adaptive", "between_tools", "disabled"]
    budget_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    display: Literal["summarized", "omitted"] | None = None


class OutputSchema(Body):
    type: Literal["json_schema"]
    schema_: JsonSchema = Field(alias="schema")


class OutputConfig(Body):
    format: OutputSchema | None = None
    #: Takes effect if the chat template reads `reasoning_effort`.
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class Metadata(Body):
    user_id: str | None = None


class CountTokensBody(Body):
    #: Required unless only one model fits.
    model: Name | None = None
    messages: Annotated[list[Turn], Field(min_length=1)]
    system: str | list[OnlyText] | None = None
    tools: list[ClientTool] | None = None
    tool_choice: Annotated[AutoChoice | NamedToolChoice, Field(discriminator="type")] | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    #: Time for which the model stays loaded after this request.
    keep_alive: KeepAlive | None = None
    #: Former name of `output_config.format`.
    output_format: OutputSchema | None = None
    #: Accepted without effect.
    cache_control: CacheControl | None = None
    context_management: dict[str, Any] | None = None


class MessagesBody(CountTokensBody):
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)]
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    priority: Priority | None = None
    #: Accepted without effect.
    metadata: Metadata | None = None
    service_tier: str | None = None
    speed: Literal["standard", "fast"] | None = None
    inference_geo: str | None = None
