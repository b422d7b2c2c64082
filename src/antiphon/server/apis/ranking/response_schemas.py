"""Response schemas of rerank and score, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from antiphon.server.generation.text.response_schemas import EmbeddingUsage
from antiphon.server.web.http.schemas import AnswerBody, Count


class AnswerDocument(AnswerBody):
    text: str


class RerankResult(AnswerBody):
    index: Count
    relevance_score: float
    document: AnswerDocument | None = None


class RerankAnswer(AnswerBody):
    """Results, best first."""

    id: str
    model: str
    results: list[RerankResult]
    usage: EmbeddingUsage


class ScoreRow(AnswerBody):
    object: Literal["score"]
    index: Count
    score: float


class ScoreAnswer(AnswerBody):
    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ScoreRow]
    usage: EmbeddingUsage
