"""Responses with `background: true`: each runs as a request of the server to itself, without a client's connection."""

from __future__ import annotations

import asyncio
import uuid

import orjson
from fastapi import Request, Response

from antiphon.server.apis.responses.event_log import EventLog
from antiphon.server.apis.responses.request_schemas import ResponseBody
from antiphon.server.apis.responses.store import store_of
from antiphon.server.web.http.connection import EventStream, json_response
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.middleware.internal_call import Caller, call


async def start_in_background(request: Request, body: ResponseBody) -> Response:
    """Start the response; answer with its state, or with the error that prevents it. `stream` follows its events."""
    if body.store is False:
        raise invalid("background: true requires that the response is stored", "store")
    store, key = store_of(request), context_of(request).key
    response_id = f"resp_{uuid.uuid4().hex}"
    given = body.model_dump(by_alias=True, exclude_unset=True, exclude={"stream", "stream_options"})
    log = store.expected[response_id] = EventLog()
    caller = Caller(key, background_id=response_id)
    work = asyncio.create_task(call(request.app, "/v1/responses", orjson.dumps(given), caller))
    store.background.add(work)
    work.add_done_callback(store.background.discard)
    waiting = asyncio.create_task(log.has_begun.wait())
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        store.expected.pop(response_id, None)
    if body.stream and log.has_begun.is_set():
        return EventStream(log.follow(), lambda: None)
    running = store.find_running(response_id, key)
    if running is not None:
        return json_response(running.snapshot())
    if log.has_begun.is_set():  # it has already ended
        return json_response(store.find(response_id, key).body)
    answer = await work
    response = json_response(answer.body, answer.status)
    if answer.retry_after is not None:
        response.headers["retry-after"] = answer.retry_after
    return response
