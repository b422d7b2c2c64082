"""Scores of text pairs: the cosine similarity of their embeddings, or a cross-encoder's output for each pair."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from fastapi import Request

from antiphon.errors import TooManyTokensError
from antiphon.server.apis.ranking.request_schemas import RankingBody
from antiphon.server.generation.text.context_length import context_length_error
from antiphon.server.generation.text.embeddings import cut_ids, embed_ids, encoded_input
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, encode
from antiphon.server.serving.model_card import task_of
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.http.connection import unless_disconnected
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import invalid


class Pair(NamedTuple):
    """Two texts, and the request field of each, for error messages."""

    first: str
    second: str
    first_name: str
    second_name: str


@dataclass(frozen=True)
class Scores:
    """A score per pair, and the number of tokens computed for all of them."""

    model: ReadyModel
    values: list[float]
    num_tokens: int

    @property
    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": self.num_tokens, "total_tokens": self.num_tokens}


async def pair_scores(
    request: Request, body: RankingBody, pairs: Sequence[Pair], max_second_tokens: int | None = None
) -> Scores:
    """Score the pairs of a request; add the model and token counts to its log line and the metrics."""
    serving, context = serving_of(request), context_of(request)
    limit = serving.config.limits.embedding_inputs
    if len(pairs) > limit:
        message = f"there are {len(pairs)} pairs of texts; at most {limit} are allowed"
        raise invalid(message, _field(pairs[0].second_name))
    model = await _model(serving, body.model)
    context.log_fields["model"] = model.name
    score = _by_cross_encoder if model.loaded.task == "score" else _by_embeddings
    work = score(serving, model, body, pairs, max_second_tokens)
    values, num_tokens = await unless_disconnected(request, work)
    serving.metrics.inputs(model.name, num_tokens)
    context.log_fields |= {"prompt_tokens": num_tokens, "inputs": len(pairs)}
    return Scores(model, [float(value) for value in values], num_tokens)


async def _model(serving: Serving, name: str | None) -> ReadyModel:
    """Load the requested cross-encoder or embedding model.

    Without a name: the configured cross-encoder, or the embedding model if there is no cross-encoder. The task of a
    model may be unknown until it is loaded.
    """
    if name is None:
        tasks = {task_of(model) for model in serving.models if model.is_configured}
        name = serving.models.only_one_for("score" if "score" in tasks else "embed").name
    own = task_of(serving.models.known(name))
    model = await serving.models.ready(name, own if own in (None, "score") else "embed")
    return model if model.loaded.task == "score" else await serving.models.ready(name, "embed")


async def _by_embeddings(
    serving: Serving, model: ReadyModel, body: RankingBody, pairs: Sequence[Pair], max_second: int | None
) -> tuple[np.ndarray[Any, Any], int]:
    limit = _limit(model, body)
    shorter = limit if max_second is None else min(max_second, limit or max_second)

    def tokens() -> tuple[list[list[int]], list[tuple[int, int]]]:
        """Tokenize each distinct text once; return all token ids, and the two text indices of each pair. Blocks."""
        indices: dict[tuple[str, int | None], int] = {}
        inputs: list[list[int]] = []

        def index_of(text: str, name: str, most: int | None) -> int:
            if (text, most) not in indices:
                indices[text, most] = len(inputs)
                inputs.append(_ids(model, text, name, most))
            return indices[text, most]

        found = [
            (index_of(pair.first, pair.first_name, limit), index_of(pair.second, pair.second_name, shorter))
            for pair in pairs
        ]
        return inputs, found

    inputs, found = await asyncio.to_thread(tokens)
    vectors, num_tokens = await embed_ids(serving, model, inputs, body.priority)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(lengths > 0, lengths, 1)
    first, second = zip(*found, strict=True)
    return np.einsum("pw,pw->p", vectors[list(first)], vectors[list(second)]), num_tokens


async def _by_cross_encoder(
    serving: Serving, model: ReadyModel, body: RankingBody, pairs: Sequence[Pair], max_second: int | None
) -> tuple[np.ndarray[Any, Any], int]:
    limit = _limit(model, body)

    def tokens() -> tuple[list[list[int]], list[int]]:
        """Return each pair's token ids, and the offset of each second text in them. Blocks."""
        names = {pair.first: pair.first_name for pair in reversed(pairs)}  # tokenize each text once
        firsts = {text: encoded_input(model, text, name, limit is not None) for text, name in names.items()}
        inputs = [_pair_ids(model, firsts[pair.first], pair, limit, max_second) for pair in pairs]
        return inputs, [len(firsts[pair.first]) for pair in pairs]

    inputs, starts = await asyncio.to_thread(tokens)
    scores, num_tokens = await embed_ids(serving, model, inputs, body.priority, starts)
    return scores[:, 0], num_tokens


def _limit(model: ReadyModel, body: RankingBody) -> int | None:
    """Return the maximum tokens of an input, or None if inputs are not cut."""
    asked = body.truncate_prompt_tokens
    if asked == 0:
        raise invalid("truncate_prompt_tokens is 0; it must be 1 or more, or -1", "truncate_prompt_tokens")
    if asked is None and not body.truncate:
        return None
    return min(asked, model.max_tokens) if asked is not None and asked > 0 else model.max_tokens


def _ids(model: ReadyModel, text: str, name: str, limit: int | None) -> list[int]:
    ids = encoded_input(model, text, name, limit is not None)
    if limit is not None:
        ids = cut_ids(ids, limit, model, True)
    return _checked(model, ids, name)


def _pair_ids(model: ReadyModel, first: list[int], pair: Pair, limit: int | None, max_second: int | None) -> list[int]:
    """Return `[CLS] first [SEP] second [SEP]`, for tokenizers with these tokens; only the second text is ever cut."""
    end = [first[-1]] if first and first[-1] in model.text.tokenizer.special_ids else []
    most = model.max_tokens if limit is None and max_second is None else TOKENIZED_TOKENS
    try:
        second = encode(model, pair.second, False, most)
    except TooManyTokensError as error:
        num_tokens = len(first) + (error.num_tokens if error.is_exact else error.limit) + len(end)
        raise context_length_error(error.limit, num_tokens, 0, pair.second_name, is_exact=error.is_exact) from None
    if max_second is not None:
        second = second[:max_second]
    if limit is not None:
        room = limit - len(first) - len(end)
        if room < 1:
            message = f"{pair.first_name} has {len(first)} tokens; both texts together are cut to {limit}"
            raise invalid(message, _field(pair.first_name), "context_length_exceeded")
        second = second[:room]
    return _checked(model, [*first, *second, *end], pair.second_name)


def _checked(model: ReadyModel, ids: list[int], name: str) -> list[int]:
    if not ids:
        raise invalid(f"{name} has no tokens", _field(name))
    if len(ids) > model.max_tokens:
        cut = "Set truncate_prompt_tokens to -1 to cut it."
        raise context_length_error(model.max_tokens, len(ids), 0, name, cut)
    return ids


def _field(name: str) -> str:
    """Return the request field of a name: `documents` for `documents[3]`."""
    return name.partition("[")[0]
