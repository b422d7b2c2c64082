"""Request bodies of Ollama's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from antiphon.server.generation.parameters.messages import FunctionName
from antiphon.server.generation.parameters.peer_parameters import MAX_LOGPROBS
from antiphon.server.generation.parameters.request_schemas import TokenId
from antiphon.server.generation.parameters.strict_schema import JsonSchema
from antiphon.server.web.http.schemas import Body, KeepAlive, Name

Penalty = Annotated[float, Field(ge=-100, le=100)]
Whole = Annotated[int, Field(gt=-(2**31), lt=2**31)]


class OllamaOptions(Body):
    """Sampling options; Ollama's other options (`num_ctx`, `num_gpu`, `mirostat`, ...) are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    #: Maximum tokens of the answer; 0 or less means up to the context length.
    num_predict: Whole | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_k: Whole | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    #: Negative: a random seed.
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | list[str] | None = None
    repeat_penalty: Annotated[float, Field(ge=0.01, le=100)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None


class OllamaBody(Body):
    #: Required unless only one model fits.
    model: Name | None = None
    #: Time for which the model stays loaded after this request; 0 unloads it.
    keep_alive: KeepAlive | None = None
    options: OllamaOptions | None = None


class OllamaTextBody(OllamaBody):
    #: Stream lines of JSON, which is the default.
    stream: bool | None = None
    format: Literal["", "json"] | JsonSchema | None = None
    think: bool | Literal["low", "medium", "high"] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_LOGPROBS)] | None = None
    #: Accepted without effect: a prompt longer than the context is an error.
    truncate: bool | None = None
    shift: bool | None = None


class OllamaFunctionCall(Body):
    name: FunctionName
    arguments: dict[str, Any]
    index: int | None = None


class OllamaToolCall(Body):
    function: OllamaFunctionCall
    id: str | None = None
    type: Literal["function"] | None = None


class OllamaMessage(Body):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    #: Only an empty list is accepted: models read text only.
    images: list[str] | None = None


class OllamaFunction(Body):
    name: FunctionName
    description: str | None = None
    parameters: JsonSchema | None = None


class OllamaTool(Body):
    type: Literal["function"] = "function"
    function: OllamaFunction


class OllamaChatBody(OllamaTextBody):
    """A chat. Without messages, the model is loaded, or unloaded with `keep_alive: 0`."""

    messages: list[OllamaMessage] | None = None
    tools: list[OllamaTool] | None = None


class OllamaGenerateBody(OllamaTextBody):
    """A prompt. Without one, the model is loaded, or unloaded with `keep_alive: 0`."""

    prompt: str | None = None
    suffix: str | None = None
    system: str | None = None
    #: Continue the prompt without the chat template.
    raw: bool | None = None
    #: `context` of the earlier answer that this request continues.
    context: list[TokenId] | None = None
    #: Only an empty template is accepted: the model's own is used.
    template: str | None = None
    images: list[str] | None = None


class OllamaEmbedBody(OllamaBody):
    input: str | list[str] | None = None
    #: Cut inputs to the model's context (default); if false, a longer input is an error.
    truncate: bool | None = None
    dimensions: Annotated[int, Field(ge=1, lt=2**31)] | None = None


class OllamaEmbeddingsBody(OllamaBody):
    prompt: str | None = None


class OllamaShowBody(Body):
    """A model by its name; `name` is the older form of `model`."""

    model: Name | None = None
    name: Name | None = None
    #: Accepted without effect.
    verbose: bool | None = None


class OllamaPullBody(OllamaShowBody):
    stream: bool | None = None
    insecure: bool | None = None
