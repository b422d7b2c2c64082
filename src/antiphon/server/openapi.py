"""The OpenAPI document. Handlers read request bodies themselves, so FastAPI does not know them: they are added here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from antiphon import __version__
from antiphon.audio.encode import CONTENT_TYPES
from antiphon.server.apis.anthropic.batches.schemas import (
    DeletedMessageBatchAnswer,
    MessageBatchAnswer,
    MessageBatchBody,
    MessageBatchesAnswer,
)
from antiphon.server.apis.anthropic.request_schemas import CountTokensBody, MessagesBody
from antiphon.server.apis.anthropic.response_schemas import MessageAnswer, TokenCountAnswer
from antiphon.server.apis.ollama import request_schemas as ollama
from antiphon.server.apis.ollama import response_schemas as ollama_answers
from antiphon.server.apis.openai.audio.response_schemas import (
    AnyTranscriptAnswer,
    BackgroundTranscriptionAnswer,
    DeletedTranscription,
    TranscriptionsAnswer,
    VoicesAnswer,
)
from antiphon.server.apis.openai.batches.schemas import BatchAnswer, BatchBody, BatchesAnswer
from antiphon.server.apis.openai.chat.response_schemas import ChatAnswer, StoredChatAnswer, StoredChatsAnswer
from antiphon.server.apis.openai.files.schemas import FileAnswer, FileDeletedAnswer, FileForm, FilesAnswer
from antiphon.server.apis.openai.stored_chats.schemas import ChatDeletedAnswer, StoredMessagesAnswer
from antiphon.server.apis.ranking.request_schemas import RerankBody, ScoreBody
from antiphon.server.apis.ranking.response_schemas import RerankAnswer, ScoreAnswer
from antiphon.server.apis.realtime.client_secrets import ClientSecretAnswer, ClientSecretBody
from antiphon.server.apis.responses.conversation_schemas import (
    ConversationAnswer,
    ConversationBody,
    ConversationDeletedAnswer,
    ConversationItemsBody,
)
from antiphon.server.apis.responses.request_schemas import CompactBody, InputTokensBody, ResponseBody
from antiphon.server.apis.responses.response_schemas import (
    CompactedAnswer,
    CountedTokensAnswer,
    DeletedAnswer,
    InputItemsAnswer,
    ItemAnswer,
    ResponseAnswer,
)
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.request_schemas import (
    CompletionBody,
    DetokenizeBody,
    EmbeddingBody,
    TemplateBody,
    TokenizeBody,
)
from antiphon.server.generation.sound.request_schemas import (
    SpeechBody,
    SpeechFormat,
    TranscriptionForm,
    TranslationForm,
)
from antiphon.server.generation.sound.transcript_answers import CONTENT_TYPES as TRANSCRIPT_TYPES
from antiphon.server.generation.text.response_schemas import (
    CompletionAnswer,
    EmbeddingAnswer,
    PromptAnswer,
    TokensAnswer,
)
from antiphon.server.serving.admin.response_schemas import (
    AnyModelCard,
    AnyModelsAnswer,
    DeletedModel,
    HealthAnswer,
    VersionAnswer,
)
from antiphon.server.web.http.schemas import (
    AnswerBody,
    AnthropicErrorAnswer,
    ErrorAnswer,
    MetadataBody,
    OllamaErrorAnswer,
)


class RouteSchemas(NamedTuple):
    """A route's request body, answer and error, whether it can answer with events, and its other content types."""

    body: type[BaseModel] | None
    answer: type[BaseModel] | None
    can_stream: bool = False
    body_type: str = "application/json"
    other_types: tuple[str, ...] = ()
    failure: type[BaseModel] = ErrorAnswer


def _ollama(body: type[BaseModel] | None, answer: type[BaseModel], can_stream: bool = False) -> RouteSchemas:
    lines = ("application/x-ndjson",) if can_stream else ()
    return RouteSchemas(body, answer, other_types=lines, failure=OllamaErrorAnswer)


def _anthropic(body: type[BaseModel] | None, answer: type[BaseModel]) -> RouteSchemas:
    return RouteSchemas(body, answer, failure=AnthropicErrorAnswer)


FORM = "multipart/form-data"
TEXTS = tuple(f"{kind}; charset=utf-8" for kind in TRANSCRIPT_TYPES.values())
SOUNDS = tuple(CONTENT_TYPES[format] for format in get_args(SpeechFormat))
RESPONSE = "/v1/responses/{response_id}"
TRANSCRIPTION = "/v1/audio/transcriptions/{transcription_id}"
CHAT = "/v1/chat/completions/{completion_id}"
CONVERSATION = "/v1/conversations/{conversation_id}"
FILE = "/v1/files/{file_id}"
MESSAGE_BATCH = "/v1/messages/batches/{message_batch_id}"
OPERATIONS: dict[tuple[str, str], RouteSchemas] = {
    ("post", "/v1/chat/completions"): RouteSchemas(ChatBody, ChatAnswer, True),
    ("get", "/v1/chat/completions"): RouteSchemas(None, StoredChatsAnswer),
    ("get", CHAT): RouteSchemas(None, StoredChatAnswer),
    ("post", CHAT): RouteSchemas(MetadataBody, StoredChatAnswer),
    ("delete", CHAT): RouteSchemas(None, ChatDeletedAnswer),
    ("get", CHAT + "/messages"): RouteSchemas(None, StoredMessagesAnswer),
    ("post", "/v1/completions"): RouteSchemas(CompletionBody, CompletionAnswer, True),
    ("post", "/v1/responses"): RouteSchemas(ResponseBody, ResponseAnswer, True),
    ("post", "/v1/messages"): RouteSchemas(MessagesBody, MessageAnswer, True, failure=AnthropicErrorAnswer),
    ("post", "/v1/messages/count_tokens"): RouteSchemas(
        CountTokensBody, TokenCountAnswer, failure=AnthropicErrorAnswer
    ),
    ("post", "/api/chat"): _ollama(ollama.OllamaChatBody, ollama_answers.OllamaChatAnswer, True),
    ("post", "/api/generate"): _ollama(ollama.OllamaGenerateBody, ollama_answers.OllamaGenerateAnswer, True),
    ("post", "/api/embed"): _ollama(ollama.OllamaEmbedBody, ollama_answers.OllamaEmbedAnswer),
    ("post", "/api/embeddings"): _ollama(ollama.OllamaEmbeddingsBody, ollama_answers.OllamaEmbeddingsAnswer),
    ("post", "/api/show"): _ollama(ollama.OllamaShowBody, ollama_answers.OllamaShowAnswer),
    ("post", "/api/pull"): _ollama(ollama.OllamaPullBody, ollama_answers.OllamaPullAnswer, True),
    ("get", "/api/tags"): _ollama(None, ollama_answers.OllamaTagsAnswer),
    ("get", "/api/ps"): _ollama(None, ollama_answers.OllamaProcessesAnswer),
    ("get", "/api/version"): _ollama(None, ollama_answers.OllamaVersionAnswer),
    ("post", "/v1/responses/input_tokens"): RouteSchemas(InputTokensBody, CountedTokensAnswer),
    ("post", "/v1/responses/compact"): RouteSchemas(CompactBody, CompactedAnswer),
    ("get", RESPONSE): RouteSchemas(None, ResponseAnswer, True),
    ("delete", RESPONSE): RouteSchemas(None, DeletedAnswer),
    ("post", RESPONSE + "/cancel"): RouteSchemas(None, ResponseAnswer),
    ("get", RESPONSE + "/input_items"): RouteSchemas(None, InputItemsAnswer),
    ("post", "/v1/embeddings"): RouteSchemas(EmbeddingBody, EmbeddingAnswer),
    ("post", "/v1/rerank"): RouteSchemas(RerankBody, RerankAnswer),
    ("post", "/v1/score"): RouteSchemas(ScoreBody, ScoreAnswer),
    ("post", "/v1/audio/transcriptions"): RouteSchemas(TranscriptionForm, AnyTranscriptAnswer, True, FORM, TEXTS),
    ("post", "/v1/audio/translations"): RouteSchemas(TranslationForm, AnyTranscriptAnswer, True, FORM, TEXTS),
    ("get", "/v1/audio/transcriptions"): RouteSchemas(None, TranscriptionsAnswer),
    ("get", TRANSCRIPTION): RouteSchemas(None, BackgroundTranscriptionAnswer),
    ("delete", TRANSCRIPTION): RouteSchemas(None, DeletedTranscription),
    ("post", TRANSCRIPTION + "/cancel"): RouteSchemas(None, BackgroundTranscriptionAnswer),
    ("post", "/v1/audio/speech"): RouteSchemas(SpeechBody, None, True, other_types=SOUNDS),
    ("post", "/v1/realtime/client_secrets"): RouteSchemas(ClientSecretBody, ClientSecretAnswer),
    ("get", "/v1/audio/voices"): RouteSchemas(None, VoicesAnswer),
    ("post", "/v1/conversations"): RouteSchemas(ConversationBody, ConversationAnswer),
    ("get", CONVERSATION): RouteSchemas(None, ConversationAnswer),
    ("post", CONVERSATION): RouteSchemas(MetadataBody, ConversationAnswer),
    ("delete", CONVERSATION): RouteSchemas(None, ConversationDeletedAnswer),
    ("post", CONVERSATION + "/items"): RouteSchemas(ConversationItemsBody, InputItemsAnswer),
    ("get", CONVERSATION + "/items"): RouteSchemas(None, InputItemsAnswer),
    ("get", CONVERSATION + "/items/{item_id}"): RouteSchemas(None, ItemAnswer),
    ("delete", CONVERSATION + "/items/{item_id}"): RouteSchemas(None, ConversationAnswer),
    ("post", "/v1/files"): RouteSchemas(FileForm, FileAnswer, False, FORM),
    ("get", "/v1/files"): RouteSchemas(None, FilesAnswer),
    ("get", FILE): RouteSchemas(None, FileAnswer),
    ("delete", FILE): RouteSchemas(None, FileDeletedAnswer),
    ("get", FILE + "/content"): RouteSchemas(None, None, other_types=("application/octet-stream",)),
    ("post", "/v1/batches"): RouteSchemas(BatchBody, BatchAnswer),
    ("get", "/v1/batches"): RouteSchemas(None, BatchesAnswer),
    ("get", "/v1/batches/{batch_id}"): RouteSchemas(None, BatchAnswer),
    ("post", "/v1/batches/{batch_id}/cancel"): RouteSchemas(None, BatchAnswer),
    ("post", "/v1/messages/batches"): _anthropic(MessageBatchBody, MessageBatchAnswer),
    ("get", "/v1/messages/batches"): _anthropic(None, MessageBatchesAnswer),
    ("get", MESSAGE_BATCH): _anthropic(None, MessageBatchAnswer),
    ("delete", MESSAGE_BATCH): _anthropic(None, DeletedMessageBatchAnswer),
    ("post", MESSAGE_BATCH + "/cancel"): _anthropic(None, MessageBatchAnswer),
    ("get", MESSAGE_BATCH + "/results"): RouteSchemas(
        None, None, other_types=("application/x-jsonl",), failure=AnthropicErrorAnswer
    ),
    ("post", "/tokenize"): RouteSchemas(TokenizeBody, TokensAnswer),
    ("post", "/detokenize"): RouteSchemas(DetokenizeBody, PromptAnswer),
    ("post", "/apply-template"): RouteSchemas(TemplateBody, PromptAnswer),
    ("get", "/v1/models"): RouteSchemas(None, AnyModelsAnswer),
    ("get", "/v1/models/{name}"): RouteSchemas(None, AnyModelCard),
    ("delete", "/v1/models/{name}"): RouteSchemas(None, DeletedModel),
    ("get", "/version"): RouteSchemas(None, VersionAnswer),
    ("get", "/livez"): RouteSchemas(None, HealthAnswer),
    ("get", "/health"): RouteSchemas(None, HealthAnswer),
    ("get", "/ping"): RouteSchemas(None, HealthAnswer),
    ("post", "/ping"): RouteSchemas(None, HealthAnswer),
    ("get", "/readyz"): RouteSchemas(None, HealthAnswer),
}
READINESS = ("/readyz", "/health", "/ping")
TEMPLATE = "#/components/schemas/{model}"


def document(app: FastAPI) -> dict[str, Any]:
    bodies = [(operation.body, "validation") for operation in OPERATIONS.values() if operation.body is not None]
    given = [operation.answer for operation in OPERATIONS.values() if operation.answer]
    given += [ErrorAnswer, *(operation.failure for operation in OPERATIONS.values())]
    wanted = bodies + [(answer, "serialization") for answer in dict.fromkeys(given)]
    references, definitions = models_json_schema(wanted, ref_template=TEMPLATE)  # type: ignore[arg-type]
    pages = get_openapi(title="Antiphon", version=__version__, routes=app.routes)
    schemas = definitions["$defs"]
    if not app.state.serving.config.is_strict:
        _open(schemas)
    pages["components"] = {"schemas": schemas}
    if app.state.serving.config.keys is not None:
        pages["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        pages["security"] = [{"key": []}]
    for path, methods in pages["paths"].items():
        for method, page in methods.items():
            operation = OPERATIONS.get((method, path), RouteSchemas(None, None))
            failure = _json(references[operation.failure, "serialization"])
            responses: dict[str, Any] = {"4XX": {"description": "The request's fault.", "content": failure}}
            responses["5XX"] = {"description": "The server's.", "content": failure}
            good: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
            if (method, path) in OPERATIONS:
                good = {kind: {} for kind in operation.other_types}
                if operation.answer is not None:
                    good |= _json(references[operation.answer, "serialization"])
                if operation.body is not None:
                    content = _content(references[operation.body, "validation"], operation.body_type)
                    page["requestBody"] = {"required": True, "content": content}
                if operation.can_stream:
                    good["text/event-stream"] = {}
            page["responses"] = {"200": {"description": "The answer.", "content": good}, **responses}
            if path in READINESS:
                page["responses"]["503"] = {"description": "Not ready, and why.", "content": good}
    return pages


def _open(schemas: dict[str, Any]) -> None:
    """Unknown fields of requests are ignored, so their schemas allow them; an answer has no others than it names."""
    answers = {answer.__name__ for answer in _subclasses(AnswerBody)}
    for name, schema in schemas.items():
        if name not in answers and schema.get("additionalProperties") is False:
            del schema["additionalProperties"]


def _subclasses(base: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for found in base.__subclasses__():
        yield found
        yield from _subclasses(found)


def _json(schema: Any) -> dict[str, Any]:
    return _content(schema, "application/json")


def _content(schema: Any, kind: str) -> dict[str, Any]:
    return {kind: {"schema": schema}}
