"""Bodies of requests about text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from antiphon.server.generation.parameters.messages import AnyTool, Message
from antiphon.server.generation.parameters.peer_parameters import MAX_LOGPROBS, LogitBias, PeerParameters, SchemaSource
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.generation.parameters.unsupported_fields import COMPLETION, GENERATION
from antiphon.server.web.http.schemas import Body, ModelBody, Name, Priority, Unsupported

TokenId = Annotated[int, Field(ge=0, lt=2**31)]
#: Token ids. `fail_fast` reports a list of millions of wrong values as one error.
TokenIds = Annotated[list[TokenId], Field(fail_fast=True)]


def _form(value: Any) -> str:
    """Return the form of prompts or inputs by their first item: trying each form takes much longer on a long list."""
    if not isinstance(value, list) or not value:
        return "text" if isinstance(value, str) else "texts"
    first = value[0]
    if isinstance(first, list):
        return "token lists"
    return "texts" if isinstance(first, str) else "tokens"


#: Text or several texts, each as text or as token ids.
Texts = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], Field(fail_fast=True), Tag("texts")]
    | Annotated[TokenIds, Tag("tokens")]
    | Annotated[list[TokenIds], Field(fail_fast=True), Tag("token lists")],
    Discriminator(_form),
]


class TextFormat(Body):
    type: Literal["text"]


class JsonObjectFormat(Body):
    type: Literal["json_object"]
    #: Schema in llama.cpp's form.
    schema_: SchemaSource | None = Field(None, alias="schema")


class NamedSchema(Body):
    name: Name
    description: str | None = None
    schema_: JsonSchema = Field(alias="schema")
    strict: bool | None = None


class JsonSchemaFormat(Body):
    type: Literal["json_schema"]
    json_schema: NamedSchema


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | JsonSchemaFormat, Field(discriminator="type")]


class StreamOptions(Body):
    """Options of streamed answers; other answers ignore them."""

    include_usage: bool | None = None
    #: With `include_usage`: report the usage so far in every chunk.
    continuous_usage_stats: bool | None = None
    #: Accepted without effect: events are not padded.
    include_obfuscation: bool | None = None


class SamplingBody(ModelBody):
    """Parameters of sampling, ending and scheduling an answer. Missing fields take the server's defaults."""

    unsupported: ClassVar[Mapping[str, Unsupported]] = GENERATION
    strict_maxima: ClassVar[Mapping[str, float]] = {"temperature": 2}

    stream: bool | None = None
    min_tokens: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    presence_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-100, le=100)] | None = None
    logit_bias: LogitBias | None = None
    allowed_token_ids: Annotated[TokenIds, Field(min_length=1)] | None = None
    banned_token_ids: TokenIds | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | Annotated[list[str], Field(fail_fast=True)] | None = None
    stop_token_ids: TokenIds | None = None
    ignore_eos: bool | None = None
    #: Source of drafts: `draft` is the server's draft model, true is `ngram`. By default the server's setting.
    speculate: Literal["off", "ngram", "draft", True, False] | None = None
    guided_json: SchemaSource | None = None
    guided_regex: str | None = None
    guided_choice: Annotated[list[str], Field(min_length=1, fail_fast=True)] | None = None
    guided_grammar: str | None = None
    priority: Priority | None = None
    #: Cached prefixes are shared only with requests of the same salt.
    cache_salt: Annotated[str, Field(max_length=512)] | None = None
    #: Number of the prompt's last tokens to keep.
    truncate_prompt_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    #: Report seconds until scheduled, until the first token, per further token and in total in `usage`.
    timings: bool | None = None
    #: Accepted without effect.
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    prompt_cache_options: dict[str, Any] | None = None


class GenerateBody(SamplingBody, PeerParameters):
    """Parameters of a text generation."""

    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    #: Maximum tokens of the answer; -1 means as long as the context allows.
    max_tokens: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    response_format: ResponseFormat | None = None


#: Text and token ids may be mixed in one prompt, and in a list of prompts.
MixedPrompt = list[str | TokenId]


def _prompt_form(value: Any) -> str:
    """Return the form like `_form`, or a mixed form if text and token ids are mixed."""
    if not isinstance(value, list):
        return _form(value)
    kinds = set(map(type, value))
    if kinds == {list}:
        inner = {kind for item in value for kind in set(map(type, item))}
        return "mixed prompts" if str in inner else "token lists"
    if list in kinds:
        return "mixed prompts"
    return "mixed" if {str, int} <= kinds else _form(value)


Prompts = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[list[str], Field(fail_fast=True), Tag("texts")]
    | Annotated[TokenIds, Tag("tokens")]
    | Annotated[list[TokenIds], Field(fail_fast=True), Tag("token lists")]
    | Annotated[MixedPrompt, Field(fail_fast=True), Tag("mixed")]
    | Annotated[list[str | Annotated[MixedPrompt, Field(fail_fast=True)]], Field(fail_fast=True), Tag("mixed prompts")],
    Discriminator(_prompt_form),
]


class CompletionBody(GenerateBody):
    unsupported: ClassVar[Mapping[str, Unsupported]] = COMPLETION

    prompt: Prompts
    #: Text after the gap to fill in, for models that are trained for it.
    suffix: str | None = None
    logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    echo: bool | None = None
    best_of: Annotated[int, Field(ge=1, le=128)] | None = None


class EmbeddingBody(ModelBody):
    input: Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    truncate_prompt_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    priority: Priority | None = None


class TemplateBody(ModelBody):
    messages: Annotated[list[Message], Field(min_length=1)]
    tools: list[AnyTool] | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class TokenizeBody(ModelBody):
    """Text to tokenize: `prompt`, or the fields of a chat."""

    prompt: str | None = None
    messages: Annotated[list[Message], Field(min_length=1)] | None = None
    tools: list[AnyTool] | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool | None = None


class DetokenizeBody(ModelBody):
    tokens: TokenIds
