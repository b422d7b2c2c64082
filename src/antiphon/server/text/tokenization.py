"""`POST /tokenize`, `/detokenize` and `/apply-template`: tokenizer and chat template of a model."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response

from antiphon.server.http.bodies import read_body
from antiphon.server.http.connection import json_response
from antiphon.server.http.errors import invalid
from antiphon.server.serving.serving import serving_of
from antiphon.server.text.chat_prompts import chat_prompt, render
from antiphon.server.text.logprobs import spelled
from antiphon.server.text.prompts import check_ids, encode
from antiphon.server.text.request_schemas import DetokenizeBody, TemplateBody, TokenizeBody
from antiphon.server.text.tools import check_tools

router = APIRouter()


@router.post("/tokenize")
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
        chat = await asyncio.to_thread(chat_prompt, model, body.messages, body.tools or [], generates, options)
        ids = chat.ids
    else:
        ids = await asyncio.to_thread(encode, model, body.prompt or "", body.add_special_tokens is not False)
    strings = [spelled(model.text.tokenizer, token) for token in ids]
    return json_response({"tokens": ids, "token_strs": strings, "count": len(ids), "max_model_len": model.max_tokens})


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, DetokenizeBody, serving.config.limits.body_bytes)
    model = await serving.models.ready(body.model)
    ids = check_ids(model, body.tokens, "tokens")
    return json_response({"prompt": await asyncio.to_thread(model.text.tokenizer.decode, ids)})


@router.post("/apply-template")
async def apply_template(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, TemplateBody, serving.config.limits.body_bytes)
    check_tools(body.tools or [], serving.config.limits)
    model = await serving.models.ready(body.model)
    generates = body.add_generation_prompt is not False
    text = await asyncio.to_thread(render, model, body.messages, body.tools or [], generates, body.chat_template_kwargs)
    return json_response({"prompt": text})
