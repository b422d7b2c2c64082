"""`POST /api/chat`."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.ollama.answers import load_or_unload, read_ollama
from antiphon.server.apis.ollama.chat_body import chat_body
from antiphon.server.apis.ollama.line_format import ChatLines
from antiphon.server.apis.ollama.request_schemas import OllamaChatBody
from antiphon.server.apis.ollama.response_schemas import OllamaChatAnswer
from antiphon.server.generation.chat.chat_call import prepare_chat
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/api/chat")
@described(body=OllamaChatBody, answer=OllamaChatAnswer, other_types=("application/x-ndjson",))
async def chat(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = await read_ollama(request, OllamaChatBody)
    if not body.messages:
        return await load_or_unload(request, body, {"message": {"role": "assistant", "content": ""}})
    model = await serving.models.ready(body.model, "generate")
    context.log_fields["model"] = model.name
    loaded = time.perf_counter()
    call = await prepare_chat(serving, chat_body(body, model))
    lines = ChatLines(body.model or model.name, call.parser(), call.text, call.logprobs, context.started, loaded)
    return await respond(request, Generations(serving, [call.call]), lines, body.stream is not False)
