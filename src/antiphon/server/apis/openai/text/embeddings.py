"""`POST /v1/embeddings`."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response

from antiphon.server.generation.parameters.request_schemas import EmbeddingBody
from antiphon.server.generation.text.embeddings import text_vectors
from antiphon.server.generation.text.response_schemas import EmbeddingAnswer
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/v1/embeddings")
@described(body=EmbeddingBody, answer=EmbeddingAnswer)
async def embeddings(request: Request) -> Response:
    body = await read_body(request, EmbeddingBody, serving_of(request).config.limits.body_bytes)
    found = await text_vectors(request, body)
    rows = [_row(index, vector, body.encoding_format) for index, vector in enumerate(found.vectors)]
    usage = {"prompt_tokens": found.num_tokens, "total_tokens": found.num_tokens}
    return json_response({"object": "list", "model": found.model.name, "data": rows, "usage": usage})


def _row(index: int, vector: np.ndarray[Any, Any], encoding: str | None) -> dict[str, Any]:
    if encoding == "base64":
        value: Any = base64.b64encode(vector.astype("<f4").tobytes()).decode()
    else:
        value = vector.tolist()
    return {"object": "embedding", "index": index, "embedding": value}
