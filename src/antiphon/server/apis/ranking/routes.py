"""`POST /v1/rerank` and `/v1/score`, and `/v2/rerank` as in Cohere's API."""

from __future__ import annotations

import time
import uuid
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.ranking.request_schemas import RerankBody, ScoreBody
from antiphon.server.apis.ranking.response_schemas import RerankAnswer, ScoreAnswer
from antiphon.server.apis.ranking.scores import Pair, pair_scores
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.openapi import described

router = APIRouter()
ROUTERS = (router,)
COHERE = "/v2/rerank"


@router.post("/v1/rerank")
@router.post(COHERE, include_in_schema=False)
@described(body=RerankBody, answer=RerankAnswer)
async def rerank(request: Request) -> Response:
    """Order documents by their relevance to a query."""
    body = await read_body(request, RerankBody, serving_of(request).config.limits.body_bytes)
    texts = [given if isinstance(given, str) else given.text for given in body.documents]
    pairs = [Pair(body.query, text, "query", f"documents[{index}]") for index, text in enumerate(texts)]
    scores = await pair_scores(request, body, pairs, body.max_tokens_per_doc)
    shows_texts = request.url.path != COHERE if body.return_documents is None else body.return_documents
    order = sorted(range(len(texts)), key=lambda index: -scores.values[index])
    results: list[dict[str, Any]] = []
    for index in order[: body.top_n or None]:
        result: dict[str, Any] = {"index": index, "relevance_score": scores.values[index]}
        results.append(result | ({"document": {"text": texts[index]}} if shows_texts else {}))
    made = {"id": f"rerank-{uuid.uuid4().hex}", "model": scores.model.name, "results": results, "usage": scores.usage}
    return json_response(made)


@router.post("/v1/score")
@described(body=ScoreBody, answer=ScoreAnswer)
async def score(request: Request) -> Response:
    """Score pairs of texts: the similarity of the two, or the relevance of the second to the first."""
    body = await read_body(request, ScoreBody, serving_of(request).config.limits.body_bytes)
    first = [body.text_1] if isinstance(body.text_1, str) else body.text_1
    second = [body.text_2] if isinstance(body.text_2, str) else body.text_2
    if len(first) not in (1, len(second)):
        message = f"text_1 has {len(first)} texts and text_2 has {len(second)}; text_1 must have one, or as many"
        raise invalid(message, "text_1")
    pairs = []
    for index, text in enumerate(second):
        first_index = 0 if len(first) == 1 else index
        pairs.append(Pair(first[first_index], text, f"text_1[{first_index}]", f"text_2[{index}]"))
    scores = await pair_scores(request, body, pairs)
    rows = [{"object": "score", "index": index, "score": value} for index, value in enumerate(scores.values)]
    return json_response(
        {
            "id": f"score-{uuid.uuid4().hex}",
            "object": "list",
            "created": int(time.time()),
            "model": scores.model.name,
            "data": rows,
            "usage": scores.usage,
        }
    )
