"""Response schemas of Ollama's API, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal

from antiphon.server.generation.text.response_schemas import TokenLogprob
from antiphon.server.web.http.schemas import AnswerBody, Count


class OllamaDone(AnswerBody):
    """Fields of an answer's end. Durations are in nanoseconds, and absent if a model was only loaded or unloaded."""

    model: str
    created_at: str
    done: Literal[True]
    done_reason: Literal["stop", "length", "load", "unload"]
    total_duration: Count | None = None
    load_duration: Count | None = None
    prompt_eval_count: Count | None = None
    prompt_eval_duration: Count | None = None
    eval_count: Count | None = None
    eval_duration: Count | None = None
    logprobs: list[TokenLogprob] | None = None


class OllamaAnswerFunction(AnswerBody):
    index: Count
    name: str
    arguments: dict[str, Any]


class OllamaAnswerCall(AnswerBody):
    id: str
    function: OllamaAnswerFunction


class OllamaAnswerMessage(AnswerBody):
    role: Literal["assistant"]
    content: str
    thinking: str | None = None
    tool_calls: list[OllamaAnswerCall] | None = None


class OllamaChatAnswer(OllamaDone):
    message: OllamaAnswerMessage


class OllamaGenerateAnswer(OllamaDone):
    response: str
    thinking: str | None = None
    context: list[Count] | None = None


class OllamaEmbedAnswer(AnswerBody):
    model: str
    embeddings: list[list[float]]
    total_duration: Count
    load_duration: Count
    prompt_eval_count: Count


class OllamaEmbeddingsAnswer(AnswerBody):
    embedding: list[float]


class OllamaDetails(AnswerBody):
    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaListed(AnswerBody):
    name: str
    model: str
    size: Count
    digest: str
    details: OllamaDetails


class OllamaTag(OllamaListed):
    modified_at: str


class OllamaTagsAnswer(AnswerBody):
    models: list[OllamaTag]


class OllamaProcess(OllamaListed):
    expires_at: str
    size_vram: Count
    context_length: Count


class OllamaProcessesAnswer(AnswerBody):
    models: list[OllamaProcess]


class OllamaShowAnswer(AnswerBody):
    modelfile: str
    parameters: str
    template: str
    details: OllamaDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class OllamaPullAnswer(AnswerBody):
    status: Literal["success"]


class OllamaVersionAnswer(AnswerBody):
    version: str
