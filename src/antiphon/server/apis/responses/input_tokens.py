"""`POST /v1/responses/input_tokens`: counts the tokens of a response's prompt."""

from __future__ import annotations

import asyncio
from functools import partial

from fastapi import APIRouter, Request, Response

from antiphon.errors import TooManyTokensError
from antiphon.server.apis.responses.chat_body import chat_body
from antiphon.server.apis.responses.history import history
from antiphon.server.apis.responses.request_schemas import InputTokensBody
from antiphon.server.apis.responses.response_schemas import CountedTokensAnswer
from antiphon.server.apis.responses.store import store_of
from antiphon.server.apis.responses.tools import with_available_tools
from antiphon.server.generation.parameters.reasoning_effort import template_options
from antiphon.server.generation.text.chat_prompts import chat_prompt
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, too_many_tokens
from antiphon.server.generation.tools.tool_use import tool_use
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.conversations import conversations_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/v1/responses/input_tokens")
@described(body=InputTokensBody, answer=CountedTokensAnswer)
async def count_input_tokens(request: Request) -> Response:
    """Count the tokens of a response's prompt, even beyond the model's context length."""
    serving, context = serving_of(request), context_of(request)
    given = await read_body(request, InputTokensBody, serving.config.limits.body_bytes)
    body = with_available_tools(given, context)
    stores = (store_of(request), conversations_of(request))
    found = await history(body.input, body.previous_response_id, body.conversation, stores, context.key)
    model = await serving.models.ready(body.model, "generate")
    context.log_fields["model"] = model.name
    chat = chat_body(body, found.items)
    use = await asyncio.to_thread(tool_use, chat, model, serving.config.limits)
    options = template_options(chat.chat_template_kwargs, chat.reasoning_effort, model)
    most = max(TOKENIZED_TOKENS, model.max_tokens)
    try:
        form = use.form if use.tools else None
        render = partial(chat_prompt, model, chat.messages, use.tools, True, options, most, form=form)
        prompt = await asyncio.to_thread(render)
    except TooManyTokensError as error:
        raise too_many_tokens(error, "input") from None
    return json_response({"object": "response.input_tokens", "input_tokens": len(prompt.ids)})
