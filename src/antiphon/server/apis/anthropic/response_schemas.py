"""Response schemas of Anthropic's API, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.web.http.schemas import AnswerBody, Count


class AnswerText(AnswerBody):
    type: Literal["text"]
    text: str


class AnswerThinking(AnswerBody):
    type: Literal["thinking"]
    thinking: str
    signature: str


class AnswerToolUse(AnswerBody):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


class MessageUsage(AnswerBody):
    input_tokens: Count
    cache_creation_input_tokens: Count
    cache_read_input_tokens: Count
    output_tokens: Count


class MessageAnswer(AnswerBody):
    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerText | AnswerThinking | AnswerToolUse]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "model_context_window_exceeded"]
    stop_sequence: str | None
    usage: MessageUsage


class TokenCountAnswer(AnswerBody):
    input_tokens: Count
