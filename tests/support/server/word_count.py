"""`POST /v1/word_count`: a complete route in a single file, as CONTRIBUTING.md describes it."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.openapi import described
from antiphon.server.web.http.schemas import AnswerBody, Body, Count

router = APIRouter()


class WordCountBody(Body):
    text: str


class WordCountAnswer(AnswerBody):
    num_words: Count


@router.post("/v1/word_count")
@described(body=WordCountBody, answer=WordCountAnswer)
async def word_count(request: Request) -> Response:
    body = await read_body(request, WordCountBody, serving_of(request).config.limits.body_bytes)
    words = body.text.split()
    if not words:
        raise invalid("text has no words", "text")
    return json_response({"num_words": len(words)})
