"""`POST /tokenize`, `/detokenize` and `/apply-template`: the tokenizer and the chat template of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from fastapi import APIRouter, Request, Response

from antiphon.errors import TooManyTokensError
from antiphon.server.generation.parameters.request_schemas import DetokenizeBody, TemplateBody, TokenizeBody
from antiphon.server.generation.parameters.tools import check_tools
from antiphon.server.generation.text.chat_prompts import chat_prompt, render
from antiphon.server.generation.text.logprobs import spelled
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, check_ids, encode, too_many_tokens
from antiphon.server.generation.text.response_schemas import PromptAnswer, TokensAnswer
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/tokenize")
@described(body=TokenizeBody, answer=TokensAnswer)
async def tokenize(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, TokenizeBody, serving.config.limits.body_bytes)
    if (body.prompt is None) == (body.messages is None):
        raise invalid("give prompt or messages", "prompt")
    chat_fields = (body.tools, body.add_generation_prompt, body.chat_template_kwargs)
    if body.messages is None and any(value is not None for value in chat_fields):
        raise invalid("tools, add_generation_prompt and chat_template_kwargs require messages", "prompt")
    model = await serving.models.ready(body.model)
    if body.messages is not None:
        if body.add_special_tokens:
            raise invalid("add_special_tokens requires prompt: a chat template adds its own", "add_special_tokens")
        check_tools(body.tools or [], serving.config.limits)
        generates = body.add_generation_prompt is not False
        options = body.chat_template_kwargs
        render = partial(chat_prompt, model, body.messages, body.tools or [], generates, options, TOKENIZED_TOKENS)
        return await asyncio.to_thread(_tokens, model, lambda: render().ids, "messages")
    text, adds = body.prompt or "", body.add_special_tokens is not False
    return await asyncio.to_thread(_tokens, model, partial(encode, model, text, adds, TOKENIZED_TOKENS), "prompt")


def _tokens(model: ReadyModel, encode: Callable[[], list[int]], param: str) -> Response:
    """Run `encode`, and return its tokens as the response. Blocks."""
    try:
        ids = encode()
    except TooManyTokensError as error:
        raise too_many_tokens(error, param) from None
    strings = [spelled(model.text.tokenizer, token) for token in ids]
    return json_response({"tokens": ids, "token_strs": strings, "count": len(ids), "max_model_len": model.max_tokens})


@router.post("/detokenize")
@described(body=DetokenizeBody, answer=PromptAnswer)
async def detokenize(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, DetokenizeBody, serving.config.limits.body_bytes)
    model = await serving.models.ready(body.model)
    if len(body.tokens) > TOKENIZED_TOKENS:
        message = f"tokens has {len(body.tokens)} tokens; at most {TOKENIZED_TOKENS} are allowed"
        raise invalid(message, "tokens", "context_length_exceeded")
    ids = check_ids(model, body.tokens, "tokens")
    return json_response({"prompt": await asyncio.to_thread(model.text.tokenizer.decode, ids)})


@router.post("/apply-template")
@described(body=TemplateBody, answer=PromptAnswer)
async def apply_template(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, TemplateBody, serving.config.limits.body_bytes)
    check_tools(body.tools or [], serving.config.limits)
    model = await serving.models.ready(body.model)
    generates = body.add_generation_prompt is not False
    text = await asyncio.to_thread(render, model, body.messages, body.tools or [], generates, body.chat_template_kwargs)
    return json_response({"prompt": text})
