"""Request bodies of `POST /v1/rerank` and `/v1/score`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from antiphon.server.web.http.schemas import Body, ModelBody, Priority

Text = Annotated[str, Field(min_length=1)]
Texts = Text | Annotated[list[Text], Field(min_length=1)]


class RankingBody(ModelBody):
    #: Maximum tokens of a text (embedding model) or of a pair, whose second text is cut (cross-encoder).
    #: -1 is the model's context. Without a limit, an input longer than the context is an error.
    truncate_prompt_tokens: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    #: Same as a `truncate_prompt_tokens` of -1.
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
    #: Maximum number of results, best first; null or 0 returns all.
    top_n: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    #: Include each document's text in its result: true by default, except for `/v2/rerank`.
    return_documents: bool | None = None
    #: Maximum tokens of a document; the rest is cut.
    max_tokens_per_doc: Annotated[int, Field(ge=1, lt=2**31)] | None = None


class ScoreBody(RankingBody):
    """Pairs of texts: one `text_1` for all of `text_2`, or one for each."""

    text_1: Texts
    text_2: Texts
