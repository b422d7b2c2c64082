"""The bodies that answers have, for the OpenAPI document. Handlers write them as plain dictionaries."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ErrorDetail(Answer):
    message: str
    type: str
    param: str | None
    code: str


class ErrorAnswer(Answer):
    error: ErrorDetail


class PromptTokensDetails(Answer):
    cached_tokens: Count


class Timings(Answer):
    """Seconds, of the slowest choice."""

    queue: float
    time_to_first_token: float
    time_per_output_token: float
    total: float


class Usage(Answer):
    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    prompt_tokens_details: PromptTokensDetails
    timings: Timings | None = None


class TopLogprob(Answer):
    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Answer):
    content: list[TokenLogprob]
    refusal: None = None


class AnswerFunction(Answer):
    name: str
    arguments: str


class AnswerToolCall(Answer):
    id: str
    type: Literal["function"]
    function: AnswerFunction


class AnswerAudio(Answer):
    id: str
    data: str
    expires_at: int
    transcript: str


class AnswerMessage(Answer):
    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | None = None
    tool_calls: list[AnswerToolCall] | None = None
    audio: AnswerAudio | None = None


class ChatChoice(Answer):
    index: Count
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatAnswer(Answer):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class CompletionLogprobs(Answer):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(Answer):
    index: Count
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length"]


class CompletionAnswer(Answer):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class EmbeddingRow(Answer):
    object: Literal["embedding"]
    index: Count
    embedding: list[float] | str


class EmbeddingUsage(Answer):
    prompt_tokens: Count
    total_tokens: Count


class EmbeddingAnswer(Answer):
    object: Literal["list"]
    model: str
    data: list[EmbeddingRow]
    usage: EmbeddingUsage


class ModelCard(Answer):
    """A model under one of its names; `root` is the name it was loaded under."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    state: Literal["unloaded", "loading", "ready", "unloading", "failed"]
    task: str | None
    max_model_len: int | None
    weight_bytes: int | None
    error: str | None


class ModelsAnswer(Answer):
    object: Literal["list"]
    data: list[ModelCard]


class TokensAnswer(Answer):
    tokens: list[int]
    token_strs: list[str]
    count: Count
    max_model_len: int


class PromptAnswer(Answer):
    prompt: str


class HealthAnswer(Answer):
    status: str
    cause: str | None = None
    models: dict[str, Any] | None = None
