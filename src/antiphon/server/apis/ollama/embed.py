"""`POST /api/embed`, and its older form `/api/embeddings`."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.ollama.answers import read_ollama, unload, unloads
from antiphon.server.apis.ollama.line_format import nanoseconds
from antiphon.server.apis.ollama.request_schemas import OllamaEmbedBody, OllamaEmbeddingsBody
from antiphon.server.apis.ollama.response_schemas import OllamaEmbedAnswer, OllamaEmbeddingsAnswer
from antiphon.server.generation.parameters.request_schemas import EmbeddingBody
from antiphon.server.generation.text.embeddings import text_vectors
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/api/embed")
@described(body=OllamaEmbedBody, answer=OllamaEmbedAnswer)
async def embed(request: Request) -> Response:
    """Embed texts. Without an input, load the model, or unload it with `keep_alive: 0`."""
    serving, context = serving_of(request), context_of(request)
    body = await read_ollama(request, OllamaEmbedBody)
    if not body.input and unloads(body):
        name = await unload(request, body, "embed")
        return json_response({"model": body.model or name, "embeddings": []})
    model = await serving.models.ready(body.model, "embed")
    loaded, vectors, num_tokens = time.perf_counter(), [], 0
    if body.input:
        limit = None if body.truncate is False else model.max_tokens
        asked = EmbeddingBody(
            model=model.name, input=body.input, truncate_prompt_tokens=limit, dimensions=body.dimensions
        )
        found = await text_vectors(request, asked)
        vectors, num_tokens = found.vectors.tolist(), found.num_tokens
    return json_response(
        {
            "model": body.model or model.name,
            "embeddings": vectors,
            "total_duration": nanoseconds(context.seconds),
            "load_duration": nanoseconds(loaded - context.started),
            "prompt_eval_count": num_tokens,
        }
    )


@router.post("/api/embeddings")
@described(body=OllamaEmbeddingsBody, answer=OllamaEmbeddingsAnswer)
async def embeddings(request: Request) -> Response:
    """Embed one text. Without a prompt, load the model, or unload it with `keep_alive: 0`."""
    serving = serving_of(request)
    body = await read_ollama(request, OllamaEmbeddingsBody)
    if not body.prompt and unloads(body):
        await unload(request, body, "embed")
        return json_response({"embedding": []})
    model = await serving.models.ready(body.model, "embed")
    if not body.prompt:
        return json_response({"embedding": []})
    asked = EmbeddingBody(model=model.name, input=body.prompt, truncate_prompt_tokens=model.max_tokens)
    return json_response({"embedding": (await text_vectors(request, asked)).vectors[0].tolist()})
