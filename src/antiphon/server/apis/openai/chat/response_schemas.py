"""Response schemas of `POST /v1/chat/completions`, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from antiphon.server.generation.text.response_schemas import CompletionUsage, PromptLogprobs, TokenLogprob
from antiphon.server.web.http.schemas import AnswerBody, Count


class ChatLogprobs(AnswerBody):
    content: list[TokenLogprob]
    refusal: None = None


class AnswerFunction(AnswerBody):
    name: str
    arguments: str


class AnswerToolCall(AnswerBody):
    id: str
    type: Literal["function"]
    function: AnswerFunction


class AnswerCustom(AnswerBody):
    name: str
    input: str


class AnswerCustomToolCall(AnswerBody):
    id: str
    type: Literal["custom"]
    custom: AnswerCustom


class AnswerAudio(AnswerBody):
    id: str
    data: str
    expires_at: int
    transcript: str


class AnswerMessage(AnswerBody):
    role: Literal["assistant"]
    content: str | None
    refusal: None = None
    reasoning_content: str | None = None
    tool_calls: list[AnswerToolCall | AnswerCustomToolCall] | None = None
    function_call: AnswerFunction | None = None
    audio: AnswerAudio | None = None


class ChatChoice(AnswerBody):
    index: Count
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls", "function_call"]
    token_ids: list[int] | None = None


class ChatAnswer(AnswerBody):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    service_tier: Literal["default"] | None = None
    choices: list[ChatChoice]
    usage: CompletionUsage
    prompt_logprobs: PromptLogprobs | None = None
    prompt_token_ids: list[int] | None = None


class StoredChatAnswer(ChatAnswer):
    metadata: dict[str, str]


class StoredChatsAnswer(AnswerBody):
    object: Literal["list"]
    data: list[StoredChatAnswer]
    first_id: str
    last_id: str
    has_more: bool
