"""Bodies in and answers out, as all of Ollama's routes have them."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from pydantic import BaseModel

from antiphon.runtime.calls.events import Ended
from antiphon.runtime.residency.keep_alive import parse_keep_alive
from antiphon.runtime.residency.resident import ModelState
from antiphon.server.apis.ollama.lines import AnswerLines
from antiphon.server.apis.ollama.request_schemas import OllamaBody, OllamaTextBody
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.streaming import closing, log_usage
from antiphon.server.serving.model_card import rfc3339
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import RequestContext, context_of
from antiphon.server.web.http.errors import ApiError

NDJSON = "application/x-ndjson"
Body = TypeVar("Body", bound=BaseModel)


async def read_ollama(request: Request, model: type[Body]) -> Body:
    """`curl -d` names no JSON, and Ollama's documentation sends everything so."""
    limit = serving_of(request).config.limits.body_bytes
    return await read_body(request, model, limit, takes_any_type=True)


async def load_or_unload(request: Request, body: OllamaTextBody, part: dict[str, Any]) -> Response:
    """The answer to a request without a prompt: its model is loaded, or unloaded with `keep_alive: 0`."""
    models = serving_of(request).models
    if unloads(body):
        name = await unload(request, body, "generate")
    else:
        name = (await unless_disconnected(request, models.ready(body.model, "generate"))).name
    reason = "unload" if unloads(body) else "load"
    head = {"model": body.model or name, "created_at": rfc3339(time.time())}
    return json_response({**head, **part, "done": True, "done_reason": reason})


def unloads(body: OllamaBody) -> bool:
    """Whether `keep_alive` is 0, which unloads the model once the request ends."""
    return body.keep_alive is not None and parse_keep_alive(body.keep_alive) == 0


async def unload(request: Request, body: OllamaBody, task: str) -> str:
    """Have a model of any task unloaded at the request's end, if it is loaded; return its name.

    Without a name, the one model that fits the task.
    """
    models = serving_of(request).models
    model = models.only_one_for(task) if body.model is None else models.find(body.model)
    if model.state is ModelState.READY:
        await unless_disconnected(request, models.ready(model.name))
    return model.name


async def answer(request: Request, generations: Generations, lines: AnswerLines, is_streamed: bool) -> Response:
    context = context_of(request)
    if not is_streamed:
        return await unless_disconnected(request, _whole(generations, lines, context))
    await unless_disconnected(request, generations.open())
    return EventStream(_stream(generations, lines, context), generations.close, NDJSON)


async def _whole(generations: Generations, lines: AnswerLines, context: RequestContext) -> Response:
    async with closing(generations):
        await generations.open()
        async for _, event in generations.events():
            for _ in lines.end(event) if isinstance(event, Ended) else lines.take(event):
                pass
    assert isinstance(event, Ended)
    log_usage(context.log_fields, generations.usage(False))
    return json_response(lines.whole(event))


async def _stream(generations: Generations, lines: AnswerLines, context: RequestContext) -> AsyncGenerator[bytes, None]:
    try:
        async for _, event in generations.events():
            for line in lines.end(event) if isinstance(event, Ended) else lines.take(event):
                yield orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        log_usage(context.log_fields, generations.usage(False))
    except ApiError as error:
        context.log_fields["code"] = error.code
        yield context.error_format.event(error, context.request_id)
    finally:
        generations.close()
