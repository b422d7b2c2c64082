"""Reading request bodies, and loading or unloading models, for all routes of Ollama's API."""

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
    """Read a JSON body of any content type: `curl -d`, as in Ollama's documentation, sends that of a form."""
    limit = serving_of(request).config.limits.body_bytes
    return await read_body(request, model, limit, takes_any_type=True)


async def load_or_unload(request: Request, body: OllamaTextBody, part: dict[str, Any]) -> Response:
    """Answer a request without a prompt: load its model, or unload it if `keep_alive` is 0.

    `part` holds the fields of the route's answer without text.
    """
    models = serving_of(request).models
    if unloads(body):
        name = await unload(request, body, "generate")
    else:
        name = (await unless_disconnected(request, models.ready(body.model, "generate"))).name
    reason = "unload" if unloads(body) else "load"
    head = {"model": body.model or name, "created_at": rfc3339(time.time())}
    return json_response({**head, **part, "done": True, "done_reason": reason})


def unloads(body: OllamaBody) -> bool:
    """Return whether `keep_alive` is 0, which unloads the model at the end of the request."""
    return body.keep_alive is not None and parse_keep_alive(body.keep_alive) == 0


async def unload(request: Request, body: OllamaBody, task: str) -> str:
    """Unload a loaded model, whatever its task, at the end of the request, and return its name.

    Without a name, the model is the only one that fits `task`.
    """
    models = serving_of(request).models
    model = models.only_one_for(task) if body.model is None else models.find(body.model)
    if model.state is ModelState.READY:
        await unless_disconnected(request, models.ready(model.name))
    return model.name
