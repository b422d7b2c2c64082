"""`POST /api/pull`: a model that requests may load, downloaded ahead of its first use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import orjson
from fastapi import APIRouter, Request, Response

from antiphon.errors import AntiphonError
from antiphon.runtime.residency.fetching import fetch_model
from antiphon.server.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.http.context import RequestContext, context_of
from antiphon.server.http.errors import api_error
from antiphon.server.ollama.answers import NDJSON, read_ollama
from antiphon.server.ollama.models import asked_name
from antiphon.server.ollama.request_schemas import OllamaPullBody
from antiphon.server.serving.serving import serving_of
from antiphon.weights.catalog.fetch import FetchProgress

router = APIRouter()
PROGRESS_SECONDS = 0.2


@router.post("/api/pull")
async def pull(request: Request) -> Response:
    """A model that the server's configuration does not let requests load is not found; see `/admin/models/pull`."""
    serving = serving_of(request)
    body = await read_ollama(request, OllamaPullBody)
    reference = serving.models.known(asked_name(serving, body)).reference
    offline = serving.config.offline
    if body.stream is False:
        await unless_disconnected(request, fetch_model(reference, offline, lambda _: None))
        return json_response({"status": "success"})
    return EventStream(_lines(reference, offline, context_of(request)), lambda: None, NDJSON)


async def _lines(reference: str, offline: bool, context: RequestContext) -> AsyncGenerator[bytes, None]:
    """Progress a few times a second. The download continues if the client disconnects."""
    latest: list[FetchProgress] = []
    yield _line(status="pulling manifest")
    fetching = asyncio.create_task(fetch_model(reference, offline, latest.append))
    try:
        while not fetching.done():
            await asyncio.wait([fetching], timeout=PROGRESS_SECONDS)
            if latest:
                update = latest[-1]
                latest.clear()
                yield _line(status=update.activity, completed=update.done, total=update.total)
        await fetching
        yield _line(status="success")
    except AntiphonError as error:
        yield context.error_format.event(api_error(error), context.request_id)
    finally:
        fetching.add_done_callback(lambda done: done.cancelled() or done.exception())


def _line(**fields: Any) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
