"""Bodies in and answers out, as all of Ollama's routes have them."""

from __future__ import annotations

import time
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from antiphon.runtime.residency.keep_alive import parse_keep_alive
from antiphon.runtime.residency.resident import ModelState
from antiphon.server.apis.ollama.request_schemas import OllamaBody, OllamaTextBody
from antiphon.server.serving.model_card import rfc3339
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import json_response, unless_disconnected

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
