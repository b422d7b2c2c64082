"""Response schemas of the Responses API, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import RootModel

from antiphon.server.generation.text.response_schemas import CompletionTimings, TokenLogprob
from antiphon.server.web.http.schemas import AnswerBody, Count

Status = Literal["in_progress", "completed", "incomplete"]


class AnswerOutputText(AnswerBody):
    type: Literal["output_text"]
    text: str
    annotations: list[Any]
    logprobs: list[TokenLogprob] | None = None


class AnswerInputText(AnswerBody):
    type: Literal["input_text"]
    text: str


class AnswerReasoningText(AnswerBody):
    type: Literal["reasoning_text"]
    text: str


class AnswerOutputMessage(AnswerBody):
    id: str
    type: Literal["message"]
    status: Status
    role: Literal["assistant"]
    content: list[AnswerOutputText]
    phase: str | None = None


class AnswerFunctionCall(AnswerBody):
    id: str
    type: Literal["function_call"]
    status: Status
    name: str
    call_id: str
    arguments: str
    namespace: str | None = None


class AnswerCustomCall(AnswerBody):
    id: str
    type: Literal["custom_tool_call"]
    status: Status
    name: str
    call_id: str
    input: str
    namespace: str | None = None


class AnswerToolSearchCall(AnswerBody):
    id: str
    type: Literal["tool_search_call"]
    status: Status
    call_id: str | None = None
    execution: Literal["client", "server"] | None = None
    arguments: dict[str, Any]


class AnswerToolSearchOutput(AnswerBody):
    id: str
    type: Literal["tool_search_output"]
    status: Status
    call_id: str | None = None
    execution: Literal["client", "server"] | None = None
    tools: list[dict[str, Any]]


class AnswerReasoning(AnswerBody):
    id: str
    type: Literal["reasoning"]
    status: Status
    summary: list[Any]
    encrypted_content: str | None = None
    content: list[AnswerReasoningText] | None = None


class AnswerInputMessage(AnswerBody):
    id: str
    type: Literal["message"]
    status: Status
    role: Literal["system", "developer", "user", "assistant"]
    content: list[AnswerInputText | AnswerOutputText]
    phase: str | None = None


class AnswerFunctionCallOutput(AnswerBody):
    id: str
    type: Literal["function_call_output"]
    status: Status
    call_id: str
    output: str | list[AnswerInputText]


class AnswerCustomToolCallOutput(AnswerBody):
    id: str
    type: Literal["custom_tool_call_output"]
    status: Status
    call_id: str
    output: str | list[AnswerInputText]


class AnswerCompaction(AnswerBody):
    """A compacted conversation, opaque to clients, which send it back unchanged."""

    id: str
    type: Literal["compaction"]
    encrypted_content: str
    created_by: str | None = None


class InputTokensDetails(AnswerBody):
    cached_tokens: Count
    cache_write_tokens: Count


class OutputTokensDetails(AnswerBody):
    reasoning_tokens: Count


class ResponseUsage(AnswerBody):
    input_tokens: Count
    input_tokens_details: InputTokensDetails
    output_tokens: Count
    output_tokens_details: OutputTokensDetails
    total_tokens: Count
    timings: CompletionTimings | None = None


class ResponseFailure(AnswerBody):
    code: str
    message: str


class IncompleteDetails(AnswerBody):
    reason: Literal["max_output_tokens"]


class AnswerReasoningOptions(AnswerBody):
    effort: str | None
    summary: None


class AnswerConversation(AnswerBody):
    id: str


class ResponseAnswer(AnswerBody):
    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    background: bool
    conversation: AnswerConversation | None
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    metadata: dict[str, str]
    model: str
    output: list[AnswerOutputMessage | AnswerFunctionCall | AnswerCustomCall | AnswerToolSearchCall | AnswerReasoning]
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    prompt_cache_retention: str | None
    reasoning: AnswerReasoningOptions
    safety_identifier: str | None
    service_tier: Literal["default"]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: str | dict[str, Any]
    tools: list[dict[str, Any]]
    top_logprobs: Count
    top_p: float
    truncation: Literal["auto", "disabled"]
    usage: ResponseUsage | None
    user: str | None


AnyItem = (
    AnswerInputMessage
    | AnswerFunctionCall
    | AnswerFunctionCallOutput
    | AnswerCustomCall
    | AnswerCustomToolCallOutput
    | AnswerToolSearchCall
    | AnswerToolSearchOutput
    | AnswerReasoning
    | AnswerCompaction
)


class ItemAnswer(RootModel[AnyItem]):
    """An item of a conversation."""


class InputItemsAnswer(AnswerBody):
    object: Literal["list"]
    data: list[AnyItem]
    first_id: str
    last_id: str
    has_more: bool


class DeletedAnswer(AnswerBody):
    id: str
    object: Literal["response"]
    deleted: bool


class CompactedAnswer(AnswerBody):
    id: str
    object: Literal["response.compaction"]
    created_at: int
    output: list[AnswerCompaction]
    usage: ResponseUsage


class CountedTokensAnswer(AnswerBody):
    object: Literal["response.input_tokens"]
    input_tokens: Count
