"""`retrieval`: documents ranked for each query by the cosine of their embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError, TooManyTokensError
from antiphon.evaluation.items import Line
from antiphon.evaluation.metrics.retrieval import ndcg, recall, reciprocal_rank
from antiphon.evaluation.subject import Subject
from antiphon.evaluation.task import EvaluationTask, ItemResult, Metric, Value

#: Texts per call, which the engine computes together.
BATCH = 128
RECALL_AT = (1, 5, 10)
NDCG_AT = 10


@dataclass(frozen=True)
class Query:
    """Query, the documents that answer it, and other documents. Errors name the `source`."""

    id: str
    text: str
    positives: list[str]
    negatives: list[str]
    source: str


class Retrieval(EvaluationTask[Query]):
    """Ranking of all queries' documents for each query, of which only the query's own positives count."""

    name = "retrieval"
    summary = "ranking of documents by embeddings"
    model_task = "embed"
    metrics = (
        *(Metric(f"recall@{k}", (f"recall@{k}",), unit="%") for k in RECALL_AT),
        Metric("MRR", ("reciprocal_rank",), unit="%"),
        Metric(f"nDCG@{NDCG_AT}", ("ndcg",), unit="%"),
    )
    sample = "retrieval.jsonl"
    fields = "query, positive (a text or a list of texts) and, if there are any, negatives"

    def item(self, line: Line) -> Query:
        positives = line.texts("positive", "positives")
        negatives = line.texts("negatives", "negative") if line.has("negatives") or line.has("negative") else []
        both = set(positives) & set(negatives)
        if both:
            raise line.error(f"a document is both positive and negative: {sorted(both)[0]!r}")
        return Query(line.id, line.text("query"), positives, negatives, line.location)

    def prepare(self, subject: Subject, items: list[Query]) -> list[Query]:
        """Collect the documents of all items, so that a limit on the queries makes none of them easier."""
        for query in items:
            for text in (query.text, *query.positives, *query.negatives):
                check_length(subject, text, query.source)
        self._documents = list(dict.fromkeys(text for query in items for text in (*query.positives, *query.negatives)))
        return items

    def evaluate(self, subject: Subject, work: Sequence[Query]) -> Iterator[ItemResult]:
        indices = {text: index for index, text in enumerate(self._documents)}
        vectors = embedded(subject, self._documents)  # [documents, size]
        for start in range(0, len(work), BATCH):
            queries = work[start : start + BATCH]
            found = embedded(subject, [query.text for query in queries])
            for query, scores in zip(queries, found @ vectors.T, strict=True):
                ranked = np.argsort(-scores, kind="stable").tolist()
                relevant = {indices[text] for text in query.positives}
                yield ItemResult(query.id, values(ranked, relevant), self._documents[ranked[0]])


def values(ranked: list[int], relevant: set[int]) -> dict[str, Value]:
    return {
        **{f"recall@{k}": recall(ranked, relevant, k) for k in RECALL_AT},
        "reciprocal_rank": reciprocal_rank(ranked, relevant),
        "ndcg": ndcg(ranked, dict.fromkeys(relevant, 1.0), NDCG_AT),
    }


def check_length(subject: Subject, text: str, source: str) -> None:
    """Reject a text that is too long for the model, naming its source."""
    try:
        subject.loaded.tokenizer.encode(text, max_tokens=subject.loaded.model.max_positions)
    except TooManyTokensError as error:
        raise InvalidRequestError(
            f"{source}: a text has {error.counted} tokens; model {subject.name!r} takes {error.limit:,}"
        ) from error


def embedded(subject: Subject, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return embeddings of length 1, a row for each text."""
    rows = [
        vector.double().numpy()
        for start in range(0, len(texts), BATCH)
        for vector in subject.engine.embed(texts[start : start + BATCH], model=subject.name)
    ]
    matrix = np.stack(rows)
    return matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
