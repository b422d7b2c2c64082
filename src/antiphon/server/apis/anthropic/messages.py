"""`POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's API on top of chats."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.anthropic.chat_body import chat_body
from antiphon.server.apis.anthropic.message_format import MessageFormat
from antiphon.server.apis.anthropic.request_schemas import CountTokensBody, MessagesBody
from antiphon.server.apis.anthropic.response_schemas import MessageAnswer, TokenCountAnswer
from antiphon.server.generation.chat.chat_call import count_prompt, prepare_chat
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response, unless_disconnected
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/v1/messages")
@described(body=MessagesBody, answer=MessageAnswer, can_stream=True)
async def create_message(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = await read_body(request, MessagesBody, serving.config.limits.body_bytes)
    chat = await prepare_chat(serving, await _chat(serving, body))
    context.log_fields["model"] = chat.model.name
    return await respond(request, Generations(serving, [chat.call]), MessageFormat(body, chat), body.stream)


@router.post("/v1/messages/count_tokens")
@described(body=CountTokensBody, answer=TokenCountAnswer)
async def count_tokens(request: Request) -> Response:
    """Count the tokens of a prompt, even beyond the model's context length."""
    serving = serving_of(request)
    body = await read_body(request, CountTokensBody, serving.config.limits.body_bytes)
    chat = await _chat(serving, body)
    context_of(request).log_fields["model"] = chat.model
    return json_response({"input_tokens": await unless_disconnected(request, count_prompt(serving, chat))})


async def _chat(serving: Serving, body: CountTokensBody) -> ChatBody:
    return chat_body(body, await serving.models.ready(body.model, "generate"))
