"""The OpenAPI document: handlers read their bodies themselves, so the schemas are put in here."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from antiphon import __version__
from antiphon.audio.encode import CONTENT_TYPES
from antiphon.server.responses import request_schemas as response_schemas
from antiphon.server.responses import response_schemas as response_answers
from antiphon.server.sound import request_schemas as sound_schemas
from antiphon.server.sound import transcriptions
from antiphon.server.text import request_schemas as schemas
from antiphon.server.text import response_schemas as answers


class Operation(NamedTuple):
    """What is sent, what comes back, whether it may come back as a stream, and as what else it may come."""

    body: type[BaseModel] | None
    answer: type[BaseModel] | None
    can_stream: bool = False
    body_type: str = "application/json"
    other_types: tuple[str, ...] = ()


FORM = "multipart/form-data"
TEXTS = tuple(f"{kind}; charset=utf-8" for kind in transcriptions.CONTENT_TYPES.values())
SOUNDS = tuple(CONTENT_TYPES[format] for format in get_args(sound_schemas.SpeechFormat))
TRANSCRIPT = sound_schemas.AnyTranscriptAnswer
RESPONSE = "/v1/responses/{response_id}"
OPERATIONS: dict[tuple[str, str], Operation] = {
    ("post", "/v1/chat/completions"): Operation(schemas.ChatBody, answers.ChatAnswer, True),
    ("post", "/v1/completions"): Operation(schemas.CompletionBody, answers.CompletionAnswer, True),
    ("post", "/v1/responses"): Operation(response_schemas.ResponseBody, response_answers.ResponseAnswer, True),
    ("get", RESPONSE): Operation(None, response_answers.ResponseAnswer),
    ("delete", RESPONSE): Operation(None, response_answers.DeletedAnswer),
    ("post", RESPONSE + "/cancel"): Operation(None, response_answers.ResponseAnswer),
    ("get", RESPONSE + "/input_items"): Operation(None, response_answers.InputItemsAnswer),
    ("post", "/v1/embeddings"): Operation(schemas.EmbeddingBody, answers.EmbeddingAnswer),
    ("post", "/v1/audio/transcriptions"): Operation(sound_schemas.TranscriptionForm, TRANSCRIPT, True, FORM, TEXTS),
    ("post", "/v1/audio/translations"): Operation(sound_schemas.TranslationForm, TRANSCRIPT, False, FORM, TEXTS),
    ("post", "/v1/audio/speech"): Operation(sound_schemas.SpeechBody, None, True, other_types=SOUNDS),
    ("get", "/v1/audio/voices"): Operation(None, sound_schemas.VoicesAnswer),
    ("post", "/tokenize"): Operation(schemas.TokenizeBody, answers.TokensAnswer),
    ("post", "/detokenize"): Operation(schemas.DetokenizeBody, answers.PromptAnswer),
    ("post", "/apply-template"): Operation(schemas.TemplateBody, answers.PromptAnswer),
    ("get", "/v1/models"): Operation(None, answers.ModelsAnswer),
    ("get", "/v1/models/{name}"): Operation(None, answers.ModelCard),
    ("get", "/livez"): Operation(None, answers.HealthAnswer),
    ("get", "/readyz"): Operation(None, answers.HealthAnswer),
}
TEMPLATE = "#/components/schemas/{model}"


def document(app: FastAPI) -> dict[str, Any]:
    bodies = [(operation.body, "validation") for operation in OPERATIONS.values() if operation.body is not None]
    given = [operation.answer for operation in OPERATIONS.values() if operation.answer] + [answers.ErrorAnswer]
    wanted = bodies + [(answer, "serialization") for answer in dict.fromkeys(given)]
    references, definitions = models_json_schema(wanted, ref_template=TEMPLATE)  # type: ignore[arg-type]
    pages = get_openapi(title="Antiphon", version=__version__, routes=app.routes)
    pages["components"] = {"schemas": definitions["$defs"]}
    if app.state.serving.config.keys is not None:
        pages["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        pages["security"] = [{"key": []}]
    failure = _json(references[answers.ErrorAnswer, "serialization"])
    for path, methods in pages["paths"].items():
        for method, page in methods.items():
            responses: dict[str, Any] = {"4XX": {"description": "The request's fault.", "content": failure}}
            responses["5XX"] = {"description": "The server's.", "content": failure}
            good: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
            operation = OPERATIONS.get((method, path))
            if operation is not None:
                good = {kind: {} for kind in operation.other_types}
                if operation.answer is not None:
                    good |= _json(references[operation.answer, "serialization"])
                if operation.body is not None:
                    content = _content(references[operation.body, "validation"], operation.body_type)
                    page["requestBody"] = {"required": True, "content": content}
                if operation.can_stream:
                    good["text/event-stream"] = {}
            page["responses"] = {"200": {"description": "The answer.", "content": good}, **responses}
            if path == "/readyz":
                page["responses"]["503"] = {"description": "Not ready, and why.", "content": good}
    return pages


def _json(schema: Any) -> dict[str, Any]:
    return _content(schema, "application/json")


def _content(schema: Any, kind: str) -> dict[str, Any]:
    return {kind: {"schema": schema}}
