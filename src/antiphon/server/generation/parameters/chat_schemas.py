"""The body of `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from antiphon.server.generation.parameters.messages import AnyTool, Function, FunctionReference, Message, ToolChoice
from antiphon.server.generation.parameters.peer_parameters import MAX_LOGPROBS
from antiphon.server.generation.parameters.prediction import PredictedContent
from antiphon.server.generation.parameters.reasoning_effort import Effort
from antiphon.server.generation.parameters.request_schemas import GenerateBody
from antiphon.server.generation.parameters.unsupported_fields import CHAT
from antiphon.server.generation.sound.request_schemas import VoiceReference
from antiphon.server.web.http.schemas import Body, Name, Unsupported


class ReplyAudio(Body):
    """Format and voice of a spoken reply. Without a voice, the model's default speaks."""

    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"]
    voice: Name | VoiceReference | None = None


class ChatBody(GenerateBody):
    unsupported: ClassVar[Mapping[str, Unsupported]] = CHAT

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    tools: list[AnyTool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    #: Deprecated form of tools.
    functions: Annotated[list[Function], Field(min_length=1)] | None = None
    function_call: Literal["none", "auto"] | FunctionReference | None = None
    #: False omits what the template writes before an answer.
    add_generation_prompt: bool | None = None
    #: Continue the last message, which must be the assistant's, instead of answering it.
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: ReplyAudio | None = None
    #: Passed to templates that have an option for it.
    reasoning_effort: Effort | None = None
    #: Expected answer: drafts are taken from it, unless `speculate` is off.
    prediction: PredictedContent | None = None
    #: Accepted without effect.
    verbosity: Literal["low", "medium", "high"] | None = None
