"""`POST /api/generate`: a prompt as the message of a chat, or continued without a template."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.calls.events import TextDelta
from antiphon.server.apis.ollama.answers import load_or_unload, read_ollama
from antiphon.server.apis.ollama.chat_body import check_unsupported, completion_body, prompt_chat_body
from antiphon.server.apis.ollama.line_format import GenerateLines
from antiphon.server.apis.ollama.request_schemas import OllamaGenerateBody
from antiphon.server.apis.ollama.response_schemas import OllamaGenerateAnswer
from antiphon.server.generation.chat.chat_call import prepare_chat
from antiphon.server.generation.text.completion_call import prepare_completion
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.logprobs import RankedTokenEntry, chat_logprobs
from antiphon.server.generation.text.prompts import TOKENIZED_TOKENS, check_ids, encode
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described
from antiphon.text.tool_calls.output_parser import OutputParser

router = APIRouter()


@router.post("/api/generate")
@described(body=OllamaGenerateBody, answer=OllamaGenerateAnswer, other_types=("application/x-ndjson",))
async def generate(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = await read_ollama(request, OllamaGenerateBody)
    check_unsupported(body)
    if not body.prompt:
        return await load_or_unload(request, body, {"response": ""})
    model = await serving.models.ready(body.model, "generate")
    context.log_fields["model"] = model.name
    begun, loaded = context.started, time.perf_counter()
    name = body.model or model.name
    earlier = check_ids(model, body.context or [], "context")
    if body.raw or body.suffix or model.text.chat_template is None:
        completion = await prepare_completion(
            serving, completion_body(body, model, await _prompt(body, model, earlier))
        )
        call = completion.calls[0]
        lines = GenerateLines(name, OutputParser(), _text, _logprobs(body, model), begun, loaded)
    else:
        chat = await prepare_chat(serving, prompt_chat_body(body, model), earlier)
        call = chat.call
        lines = GenerateLines(name, chat.parser(), chat.text, chat.logprobs, begun, loaded)
    lines.prompt = None if body.raw else call.prompt
    return await respond(request, Generations(serving, [call]), lines, body.stream is not False)


async def _prompt(body: OllamaGenerateBody, model: ReadyModel, earlier: list[int]) -> str | list[int]:
    if not earlier:
        return body.prompt or ""
    return [*earlier, *await asyncio.to_thread(encode, model, body.prompt or "", False, TOKENIZED_TOKENS)]


def _text(delta: TextDelta) -> str:
    return delta.text


def _logprobs(body: OllamaGenerateBody, model: ReadyModel) -> Any:
    def entries(delta: TextDelta) -> list[RankedTokenEntry] | None:
        if not body.logprobs:
            return None
        return chat_logprobs(model.text.tokenizer, delta.token_ids, delta.logprobs, delta.top_logprobs)

    return entries
