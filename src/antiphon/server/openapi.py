"""The OpenAPI document: handlers read their bodies themselves, so the schemas are put in here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from antiphon import __version__
from antiphon.server import answers, schemas

#: By path: the body, the answer, and whether the answer may be streamed.
POSTS: dict[str, tuple[type[BaseModel], type[BaseModel], bool]] = {
    "/v1/chat/completions": (schemas.ChatBody, answers.ChatAnswer, True),
    "/v1/completions": (schemas.CompletionBody, answers.CompletionAnswer, True),
    "/v1/embeddings": (schemas.EmbeddingBody, answers.EmbeddingAnswer, False),
    "/tokenize": (schemas.TokenizeBody, answers.TokensAnswer, False),
    "/detokenize": (schemas.DetokenizeBody, answers.PromptAnswer, False),
    "/apply-template": (schemas.TemplateBody, answers.PromptAnswer, False),
}
GETS: dict[str, type[BaseModel]] = {
    "/v1/models": answers.ModelsAnswer,
    "/v1/models/{name}": answers.ModelCard,
    "/livez": answers.HealthAnswer,
    "/readyz": answers.HealthAnswer,
}
TEMPLATE = "#/components/schemas/{model}"


def document(app: FastAPI) -> dict[str, Any]:
    bodies = [(body, "validation") for body, _, _ in POSTS.values()]
    given = [answer for _, answer, _ in POSTS.values()] + list(GETS.values()) + [answers.ErrorAnswer]
    wanted = bodies + [(answer, "serialization") for answer in dict.fromkeys(given)]
    references, definitions = models_json_schema(wanted, ref_template=TEMPLATE)  # type: ignore[arg-type]
    pages = get_openapi(title="Antiphon", version=__version__, routes=app.routes)
    pages["components"] = {"schemas": definitions["$defs"]}
    if app.state.serving.config.keys is not None:
        pages["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        pages["security"] = [{"key": []}]
    failure = _json(references[answers.ErrorAnswer, "serialization"])
    for path, methods in pages["paths"].items():
        for operation in methods.values():
            responses: dict[str, Any] = {"4XX": {"description": "The request's fault.", "content": failure}}
            responses["5XX"] = {"description": "The server's.", "content": failure}
            good: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
            if path in POSTS:
                body, answer, can_stream = POSTS[path]
                operation["requestBody"] = {"required": True, "content": _json(references[body, "validation"])}
                good = _json(references[answer, "serialization"])
                if can_stream:
                    good["text/event-stream"] = {}
            elif path in GETS:
                good = _json(references[GETS[path], "serialization"])
            operation["responses"] = {"200": {"description": "The answer.", "content": good}, **responses}
            if path == "/readyz":
                operation["responses"]["503"] = {"description": "Not ready, and why.", "content": good}
    return pages


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
