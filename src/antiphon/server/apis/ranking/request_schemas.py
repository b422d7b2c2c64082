"""The bodies of `POST /v1/rerank` and `/v1/score`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from antiphon.server.web.http.schemas import Body, ModelBody, Priority

Text = Annotated[str, Field(min_length=1)]
Texts = Text | Annotated[list[Text], Field(min_length=1)]


class RankingBody(ModelBody):
    #: Cut what is longer: a text for an embedding model, a pair for a cross-encoder, where the second text is cut.
    #: -1 is the model's context. Without it, a text that is too long is an error.
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    #: The same as a `truncate_prompt_tokens` of -1.
    truncate: bool | None = None
    priority: Priority | None = None


class DocumentBody(Body):
    text: Text
    #: Accepted without effect.
    id: Any = None
    title: Any = None


class RerankBody(RankingBody):
    query: Text
    documents: Annotated[list[Text | DocumentBody], Field(min_length=1)]
    #: How many of the best are in the answer; all without it, or if it is 0.
    top_n: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    #: Whether results have the texts: true by default, except by `/v2/rerank`.
    return_documents: bool | None = None
    #: Most tokens of a document; the rest is cut.
    max_tokens_per_doc: Annotated[int, Field(ge=1, lt=2**31)] | None = None


class ScoreBody(RankingBody):
    """One text with each of several, or as many with as many."""

    text_1: Texts
    text_2: Texts
