"""Request body of `POST /v1/responses`, and the items of its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, PrivateAttr, Tag, TypeAdapter

from antiphon.server.generation.parameters.messages import AnyText, FunctionName
from antiphon.server.generation.parameters.peer_parameters import MAX_LOGPROBS
from antiphon.server.generation.parameters.reasoning_effort import Effort
from antiphon.server.generation.parameters.request_schemas import (
    JsonObjectFormat,
    SamplingBody,
    TextFormat,
)
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.generation.parameters.unsupported_fields import RESPONSES
from antiphon.server.web.http.schemas import Body, ModelBody, Name, Unsupported
from antiphon.server.web.http.text_only import ReadsText

Status = Literal["in_progress", "completed", "incomplete"]
ItemId = Annotated[str, Field(max_length=256)]


class InputText(Body):
    type: Literal["input_text"]
    text: str


class OutputText(Body):
    """Text of an earlier answer; its annotations and log-probabilities are accepted without effect."""

    type: Literal["output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None


ContentPart = Annotated[InputText | OutputText, Field(discriminator="type"), ReadsText]


class MessageItem(Body):
    type: Annotated[Literal["message"], BeforeValidator(lambda given: given or "message")] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]
    id: ItemId | None = None
    status: Status | None = None
    phase: str | None = None


class FunctionCallItem(Body):
    type: Literal["function_call"]
    call_id: str
    name: FunctionName
    arguments: str
    namespace: Annotated[str, Field(max_length=256)] | None = None
    id: ItemId | None = None
    status: Status | None = None


class FunctionCallOutputItem(Body):
    type: Literal["function_call_output"]
    call_id: str
    output: str | list[Annotated[InputText, ReadsText]]
    id: ItemId | None = None
    status: Status | None = None


class CustomToolCallItem(Body):
    type: Literal["custom_tool_call"]
    call_id: str
    name: FunctionName
    input: str
    namespace: Annotated[str, Field(max_length=256)] | None = None
    id: ItemId | None = None
    status: Status | None = None


class CustomToolCallOutputItem(Body):
    type: Literal["custom_tool_call_output"]
    call_id: str
    output: str | list[InputText]
    id: ItemId | None = None
    status: Status | None = None


class ResponseTool(Body):
    type: Literal["function"]
    name: FunctionName
    description: str | None = None
    parameters: JsonSchema | None = None
    strict: bool | None = None
    #: Accepted without effect: every tool is loaded.
    defer_loading: bool | None = None


class InputGrammarFormat(Body):
    type: Literal["grammar"]
    syntax: Literal["lark", "regex"]
    definition: str


class ResponseCustomTool(Body):
    """A tool whose input is text, optionally constrained by a grammar."""

    type: Literal["custom"]
    name: FunctionName
    description: str | None = None
    format: Annotated[AnyText | InputGrammarFormat, Field(discriminator="type")] | None = None
    #: Accepted without effect: every tool is loaded.
    defer_loading: bool | None = None


class NamespaceTool(Body):
    """A group of tools, each called by the namespace's name and its own."""

    type: Literal["namespace"]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    tools: list[Annotated[ResponseTool | ResponseCustomTool, Field(discriminator="type")]]


class ToolSearchTool(Body):
    """A search for further tools, run by the client if `execution` is `client`; otherwise ignored."""

    type: Literal["tool_search"]
    execution: Literal["client", "server"] | None = None
    description: str | None = None
    parameters: JsonSchema | None = None


class HostedTool(Body):
    """A tool that OpenAI's service runs; ignored, and named in `x-antiphon-ignored`."""

    model_config = ConfigDict(extra="allow")

    type: Literal[
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "computer_use_preview_2025_03_11",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    ]


AnyResponseTool = Annotated[
    ResponseTool | ResponseCustomTool | NamespaceTool | ToolSearchTool | HostedTool, Field(discriminator="type")
]


class ToolSearchCallItem(Body):
    type: Literal["tool_search_call"]
    call_id: str | None = None
    execution: Literal["client", "server"] | None = None
    arguments: dict[str, Any] = Field(default_factory=dict)
    id: ItemId | None = None
    status: Status | None = None


class ToolSearchOutputItem(Body):
    """Tools that a search found; they may be called from here on."""

    type: Literal["tool_search_output"]
    call_id: str | None = None
    execution: Literal["client", "server"] | None = None
    tools: list[AnyResponseTool]
    id: ItemId | None = None
    status: Status | None = None


class ReasoningText(Body):
    type: Literal["reasoning_text"]
    text: str


class ReasoningItem(Body):
    type: Literal["reasoning"]
    #: Accepted without effect: only `content` is shown to the model.
    summary: list[Any] | None = None
    encrypted_content: str | None = None
    content: list[ReasoningText] | None = None
    id: ItemId | None = None
    status: Status | None = None


class CompactionItem(Body):
    """A conversation compacted by `POST /v1/responses/compact`."""

    type: Literal["compaction"]
    encrypted_content: str
    id: ItemId | None = None
    created_by: str | None = None
    _content: tuple[str, list[PlainItem]] | None = PrivateAttr(None)

    @property
    def content(self) -> tuple[str, list[PlainItem]] | None:
        """Summary and kept items; None until the item is unpacked."""
        return self._content

    def set_content(self, summary: str, kept: list[PlainItem]) -> None:
        self._content = summary, kept


def _kind(value: Any) -> Any:
    """Return the type of an item; an item without a type is a message."""
    return (value.get("type") or "message") if isinstance(value, dict) else getattr(value, "type", None)


#: Any item but a compaction item, which contains others.
PlainItem = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")]
    | Annotated[CustomToolCallItem, Tag("custom_tool_call")]
    | Annotated[CustomToolCallOutputItem, Tag("custom_tool_call_output")]
    | Annotated[ToolSearchCallItem, Tag("tool_search_call")]
    | Annotated[ToolSearchOutputItem, Tag("tool_search_output")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(_kind),
]
Item = Annotated[
    Annotated[MessageItem, Tag("message")]
    | Annotated[FunctionCallItem, Tag("function_call")]
    | Annotated[FunctionCallOutputItem, Tag("function_call_output")]
    | Annotated[CustomToolCallItem, Tag("custom_tool_call")]
    | Annotated[CustomToolCallOutputItem, Tag("custom_tool_call_output")]
    | Annotated[ToolSearchCallItem, Tag("tool_search_call")]
    | Annotated[ToolSearchOutputItem, Tag("tool_search_output")]
    | Annotated[ReasoningItem, Tag("reasoning")]
    | Annotated[CompactionItem, Tag("compaction")],
    Discriminator(_kind),
]
PLAIN_ITEMS: TypeAdapter[list[PlainItem]] = TypeAdapter(list[PlainItem])
ITEMS: TypeAdapter[list[Item]] = TypeAdapter(list[Item])


class ConversationReference(Body):
    id: Annotated[str, Field(max_length=512)]


#: Text or items; an omitted input is an empty message.
Input = Annotated[str, Field(min_length=1)] | Annotated[list[Item], Field(min_length=1)]


class ChosenTool(Body):
    type: Literal["function", "custom"]
    name: FunctionName
    namespace: Annotated[str, Field(max_length=256)] | None = None


class ChosenTools(Body):
    """The only tools that may be called."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[ChosenTool], Field(min_length=1, max_length=1024)]


class SchemaFormat(Body):
    type: Literal["json_schema"]
    name: Name
    description: str | None = None
    schema_: JsonSchema = Field(alias="schema")
    strict: bool | None = None


class TextOptions(Body):
    format: Annotated[TextFormat | JsonObjectFormat | SchemaFormat, Field(discriminator="type")] | None = None
    #: Accepted without effect.
    verbosity: Literal["low", "medium", "high"] | None = None


class ReasoningOptions(Body):
    #: Passed to chat templates that read `reasoning_effort`.
    effort: Effort | None = None
    #: Accepted without effect: reasoning is not summarized.
    summary: Literal["auto", "concise", "detailed"] | None = None
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    context: Literal["auto", "current_turn", "all_turns"] | None = None
    mode: str | None = None


class ResponseStreamOptions(Body):
    #: Accepted without effect.
    include_obfuscation: bool | None = None


#: Only `message.output_text.logprobs` adds to an answer; the others are accepted without effect.
Includable = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
]


class ResponseBody(SamplingBody):
    """A request for a response. `store` (default: true) keeps it for `previous_response_id` and `GET /v1/responses`."""

    unsupported: ClassVar[Mapping[str, Unsupported]] = RESPONSES

    input: Input | None = None
    #: Conversation whose items precede the input; input and output are appended to it.
    conversation: Annotated[str, Field(max_length=512)] | ConversationReference | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    stream_options: ResponseStreamOptions | None = None
    tools: list[AnyResponseTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ChosenTool | ChosenTools | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: ReasoningOptions | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    include: list[Includable] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    #: `auto` drops the oldest turns of a conversation that exceeds the context.
    truncation: Literal["auto", "disabled"] | None = None
    #: Maximum number of calls in the answer; further calls are dropped.
    max_tool_calls: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    #: Answer at once; the response is read by its id.
    background: bool | None = None
    #: Accepted without effect.
    access_programs: dict[str, Any] | None = None
    client_metadata: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class InputTokensBody(ResponseBody):
    """A request for a response, whose prompt tokens are counted."""

    #: Accepted without effect.
    personality: Annotated[str, Field(max_length=64)] | None = None


class CompactBody(ModelBody):
    """A conversation to compact."""

    input: Input | None = None
    previous_response_id: str | None = None
    #: Instructions of the conversation, for the model that writes the summary.
    instructions: str | None = None
    #: Accepted without effect.
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    image: dict[str, Any] | None = None
