"""`POST /api/pull`: downloads a model that requests may load, ahead of its first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from antiphon.errors import AntiphonError
from antiphon.server.apis.ollama.answers import read_ollama
from antiphon.server.apis.ollama.line_format import NDJSON
from antiphon.server.apis.ollama.models import asked_name
from antiphon.server.apis.ollama.request_schemas import OllamaPullBody
from antiphon.server.apis.ollama.response_schemas import OllamaPullAnswer
from antiphon.server.serving.downloads import Download, downloads_of
from antiphon.server.serving.model_names import untagged
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.serving.setup.config import LoadOnUse
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import RequestContext, context_of
from antiphon.server.web.http.errors import api_error, invalid
from antiphon.server.web.http.openapi import described
from antiphon.weights.catalog.hub_models import HUB_REFERENCE

router = APIRouter()
PROGRESS_SECONDS = 0.2


@router.post("/api/pull")
@described(body=OllamaPullBody, answer=OllamaPullAnswer, other_types=("application/x-ndjson",))
async def pull(request: Request) -> Response:
    """Download a model that requests may load. Any other model is not found; see `/admin/models/pull`."""
    serving = serving_of(request)
    body = await read_ollama(request, OllamaPullBody)
    download = downloads_of(request).start(_reference(serving, asked_name(body)))
    if body.stream is False:
        await unless_disconnected(request, download.wait())
        return json_response({"status": "success"})
    return EventStream(_lines(download, context_of(request)), lambda: None, NDJSON)


def _reference(serving: Serving, name: str) -> str:
    """Return the reference that the named model is loaded from, without registering the model."""
    models, allowed = serving.models, serving.config.load_on_use
    if models.named(name) is None:
        listed = untagged(name).lower()
        if allowed is not LoadOnUse.CONFIGURED and listed in models.catalog_names():
            return listed
        if allowed is LoadOnUse.HUB and HUB_REFERENCE.fullmatch(name) is not None:
            return name
    found = models.find(name)
    if found.base is not None:
        message = f"model {found.name!r} is an adapter in a folder of the server; there is nothing to download"
        raise invalid(message, "model")
    return found.reference


async def _lines(download: Download, context: RequestContext) -> AsyncGenerator[bytes, None]:
    """Yield a progress line up to five times a second; the download continues if the client disconnects."""
    yield _line(status="pulling manifest")
    sent = None
    try:
        while not download.task.done():
            await asyncio.wait([download.task], timeout=PROGRESS_SECONDS)
            update = download.progress
            if update is not None and update is not sent:
                sent = update
                yield _line(status=update.activity, completed=update.done, total=update.total)
        await download.wait()
        yield _line(status="success")
    except AntiphonError as error:
        yield context.error_format.event(api_error(error), context.request_id)


def _line(**fields: Any) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
