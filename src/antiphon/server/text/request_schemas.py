"""The bodies of requests. An unknown field is rejected, never ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from antiphon.runtime.keep_alive import PATTERN as KEEP_ALIVE_PATTERN

MAX_LOGPROBS = 20
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Name = Annotated[str, Field(min_length=1, max_length=512)]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class Body(BaseModel):
    """Strict: a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", strict=True)


# -- messages and tools -------------------------------------------------------------------------------------------


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
    role: Literal["user"]
    content: str | list[Annotated[TextPart | InputAudioPart, Field(discriminator="type")]]
    name: str | None = None


class FunctionCall(Body):
    name: FunctionName
    arguments: str


class ToolCall(Body):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int | None = None


class AudioReference(Body):
    id: Annotated[str, Field(max_length=512)]
    #: As the server gave it; the id says enough.
    data: str | None = None
    expires_at: int | None = None
    transcript: str | None = None


class AssistantMessage(Body):
    """As the server gave it: fields that clients send back empty are taken."""

    role: Literal["assistant"]
    content: TextContent | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    name: str | None = None
    refusal: None = None
    audio: AudioReference | None = None
    function_call: None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None


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


# -- forms of answers ---------------------------------------------------------------------------------------------


class TextFormat(Body):
    type: Literal["text"]


class JsonObjectFormat(Body):
    type: Literal["json_object"]


class NamedSchema(Body):
    name: Name
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class JsonSchemaFormat(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class StreamOptions(Body):
    include_usage: bool | None = None


# -- requests -----------------------------------------------------------------------------------------------------


#: Seconds, or like `5m`; -1 is for ever.
KeepAlive = Annotated[float, Field(ge=-1, le=1e9)] | Annotated[str, Field(pattern=KEEP_ALIVE_PATTERN)]


class ModelBody(Body):
    model: Name
    #: How long the model stays resident after this request.
    keep_alive: KeepAlive | None = None
    #: Taken, and of no effect on the answer.
    user: str | None = None


class SamplingBody(ModelBody):
    """How an answer is drawn, ended and scheduled. Fields that are None take the server's defaults."""

    stream: bool | None = None
    min_tokens: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    allowed_token_ids: Annotated[list[TokenId], Field(min_length=1)] | None = None
    banned_token_ids: list[TokenId] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[TokenId] | None = None
    ignore_eos: bool | None = None
    guided_json: dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Field(min_length=1)] | None = None
    guided_grammar: str | None = None
    #: 0 is critical, 1 high, 2 normal.
    priority: Annotated[int, Field(ge=0, le=2)] | None = None
    #: Requests share cached prefixes only with requests of the same salt.
    cache_salt: Annotated[str, Field(max_length=512)] | None = None
    #: Keep only this many of the prompt's last tokens.
    truncate_prompt_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    #: Put seconds of waiting, first token, further tokens and the whole into `usage`.
    timings: bool | None = None
    #: Taken, and of no effect on the answer.
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


class VoiceReference(Body):
    id: Name


class ReplyAudio(Body):
    """How a reply is spoken. Without a voice, the model's own."""

    format: Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"]
    voice: Name | VoiceReference | None = None


class GenerateBody(SamplingBody):
    """What a generation can be asked."""

    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    max_tokens: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    response_format: ResponseFormat | None = None


class ChatBody(GenerateBody):
    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: ReplyAudio | None = None


class CompletionBody(GenerateBody):
    prompt: str | list[str] | list[TokenId] | list[list[TokenId]]
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None


class EmbeddingBody(ModelBody):
    input: str | list[str] | list[TokenId] | list[list[TokenId]]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    priority: Annotated[int, Field(ge=0, le=2)] | None = None


class TemplateBody(ModelBody):
    messages: Annotated[list[Message], Field(min_length=1)]
    tools: list[Tool] | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeBody(ModelBody):
    """`prompt`, or the fields of a chat."""

    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[Tool] | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None


class DetokenizeBody(ModelBody):
    tokens: list[TokenId]


BODIES = (ChatBody, CompletionBody, EmbeddingBody, TemplateBody, TokenizeBody, DetokenizeBody)
