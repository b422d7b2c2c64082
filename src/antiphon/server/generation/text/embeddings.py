"""Vectors of texts and token ids, for all APIs."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import Request

from antiphon.errors import EngineError, TooManyTokensError
from antiphon.runtime.calls.tasks import EmbedInputs
from antiphon.server.generation.parameters.request_schemas import EmbeddingBody
from antiphon.server.generation.text.context_length import context_length_error
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, check_ids, encode, several
from antiphon.server.serving.failures import engine_failure
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.http.connection import unless_disconnected
from antiphon.server.web.http.context import context_of, priority_of
from antiphon.server.web.http.errors import invalid

#: Inputs sent to the engine at a time, so that other requests can run between the parts of a large batch.
PART = 128


@dataclass(frozen=True)
class TextVectors:
    """Vector [width] of each input, and the total number of tokens."""

    model: ReadyModel
    vectors: np.ndarray[Any, Any]
    num_tokens: int


async def text_vectors(request: Request, body: EmbeddingBody) -> TextVectors:
    """Embed the inputs of a request, and record them in its log line and the metrics."""
    serving, context = serving_of(request), context_of(request)
    model = await serving.models.ready(body.model, "embed")
    context.log_fields["model"] = model.name
    inputs = await asyncio.to_thread(_inputs, body, model, serving.config.limits.embedding_inputs)
    vectors, tokens = await unless_disconnected(request, embed_ids(serving, model, inputs, body.priority))
    vectors = await asyncio.to_thread(_shortened, vectors, body.dimensions)
    serving.metrics.inputs(model.name, tokens)
    context.log_fields |= {"prompt_tokens": tokens, "inputs": len(inputs)}
    return TextVectors(model, vectors, tokens)


def _inputs(body: EmbeddingBody, model: ReadyModel, limit: int) -> list[list[int]]:
    """Return the token ids of every input. Blocks."""
    given = several(body.input)
    if not 1 <= len(given) <= limit:
        raise invalid(f"input has {len(given)} texts; it must have 1 to {limit}", "input")
    inputs = []
    for index, item in enumerate(given):
        name = f"input[{index}]"
        if not item:
            raise invalid(f"{name} is empty", "input")
        is_cut = body.truncate_prompt_tokens is not None
        ids = encoded_input(model, item, name, is_cut) if isinstance(item, str) else check_ids(model, item, "input")
        if body.truncate_prompt_tokens is not None:
            ids = cut_ids(ids, body.truncate_prompt_tokens, model, isinstance(item, str))
        if not ids:
            raise invalid(f"{name} has no tokens", "input")
        if len(ids) > model.max_tokens:
            raise context_length_error(model.max_tokens, len(ids), 0, name)
        inputs.append(ids)
    return inputs


def encoded_input(model: ReadyModel, text: str, name: str, is_cut: bool) -> list[int]:
    """Return the tokens of a text. Raise before encoding all of it if it is too long and will not be cut."""
    try:
        return encode(model, text, True, TOKENIZED_TOKENS if is_cut else model.max_tokens)
    except TooManyTokensError as error:
        shown = error.num_tokens if error.is_exact else error.limit
        raise context_length_error(error.limit, shown, 0, name, is_exact=error.is_exact) from None


def cut_ids(ids: list[int], size: int, model: ReadyModel, is_text: bool) -> list[int]:
    """Return the first `size` tokens, including the end token that the model expects after every text."""
    ends = len(ids) - 1 if is_text and len(ids) > size > 1 and ids[-1] in model.text.tokenizer.special_ids else len(ids)
    return [*ids[: size - len(ids[ends:])], *ids[ends:]]


async def embed_ids(
    serving: Serving,
    model: ReadyModel,
    inputs: list[list[int]],
    priority: int | None,
    second_starts: list[int] | None = None,
) -> tuple[np.ndarray[Any, Any], int]:
    """Return vectors [inputs, width] and the total number of tokens. With `second_starts`, width 1: scores of pairs."""
    parts, tokens = [], 0
    for start in range(0, len(inputs), PART):
        part = slice(start, start + PART)
        call = EmbedInputs(
            id=uuid.uuid4().hex,
            model=model.name,
            inputs=inputs[part],
            priority=priority_of(priority),
            second_starts=None if second_starts is None else second_starts[part],
        )
        try:
            answer = await serving.client.embed(call)
        except EngineError as error:
            raise engine_failure(serving.client, error) from error
        parts.append(answer.vectors)
        tokens += answer.prompt_tokens
    return np.concatenate(parts), tokens


def _shortened(vectors: np.ndarray[Any, Any], dimensions: int | None) -> np.ndarray[Any, Any]:
    """Return the first `dimensions` components of each vector, normalised again."""
    width = vectors.shape[1]
    if dimensions is None or dimensions == width:
        return vectors
    if dimensions > width:
        raise invalid(f"dimensions is {dimensions}; the model's vectors have {width}", "dimensions")
    short = vectors[:, :dimensions]
    lengths = np.linalg.norm(short, axis=1, keepdims=True)
    result: np.ndarray[Any, Any] = (short / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return result
