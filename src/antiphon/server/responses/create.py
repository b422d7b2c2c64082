"""`POST /v1/responses`: answers that are stored, and can be continued by their id."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.calls.events import Ended
from antiphon.server.http.bodies import read_body
from antiphon.server.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.http.context import context_of
from antiphon.server.http.errors import ApiError
from antiphon.server.http.events import named_event
from antiphon.server.responses.items import given_items, listed
from antiphon.server.responses.request_schemas import ResponseBody
from antiphon.server.responses.run import ResponseRun
from antiphon.server.responses.store import CANCELLED, ResponseStore, RunningResponse, store_of
from antiphon.server.responses.truncation import prepare_fitting
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.text.generation import Generations
from antiphon.server.text.streaming import closing, log_usage

router = APIRouter()

#: From the names of a chat's fields to those of this route.
PARAMS = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    serving, context, store = serving_of(request), context_of(request), store_of(request)
    body = await read_body(request, ResponseBody, serving.config.limits.body_bytes)
    run = await _prepare(serving, store, body, context.key)
    context.log_fields["model"] = run.chat.model.name
    generations = Generations(serving, [run.chat.call])
    if body.stream:
        await unless_disconnected(request, generations.open())
        return EventStream(_stream(store, run, generations, context.log_fields), generations.close)
    return await unless_disconnected(request, _whole(store, run, generations, context.log_fields))


async def _prepare(serving: Serving, store: ResponseStore, body: ResponseBody, owner: int | None) -> ResponseRun:
    """Check everything that can be rejected before the engine receives the request."""
    items, inputs = list(given_items(body)), []
    if body.previous_response_id is not None:
        previous = store.find(body.previous_response_id, owner, "previous_response_id")
        items = [*previous.items, *items]
        inputs = [*previous.inputs, *previous.body["output"]]
    inputs += [listed(item) for item in given_items(body)]
    try:
        chat = await prepare_fitting(serving, body, items)
    except ApiError as error:
        error.param = PARAMS.get(error.param or "", error.param)
        raise
    return ResponseRun(body, chat, items, inputs, owner)


async def _whole(
    store: ResponseStore, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> Response:
    async with closing(generations):
        await generations.open()
        async with aclosing(_events(store, run, generations, log_fields)) as events:
            async for _ in events:
                pass
    if run.error is not None:
        raise run.error
    return json_response(run.body())


async def _stream(
    store: ResponseStore, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    try:
        number = 0
        async with aclosing(_events(store, run, generations, log_fields)) as events:
            async for content in events:
                yield named_event(content["type"], {**content, "sequence_number": number})
                number += 1
        if run.error is not None:
            failure = run.error.body()
            content = {**failure["error"], "type": "error", "sequence_number": number, **failure}
            yield named_event("error", content)
    finally:
        generations.close()


async def _events(
    store: ResponseStore, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    """The response's events; it is stored before the last one, which has its final status. A failure is `run.error`."""
    running = store.running
    running[run.id] = RunningResponse(run.body, generations.cancel, run.owner)
    try:
        yield {"type": "response.created", "response": run.body()}
        yield {"type": "response.in_progress", "response": run.body()}
        try:
            async for _, event in generations.events():
                for content in run.end(event) if isinstance(event, Ended) else run.take(event):
                    yield content
        except ApiError as error:
            log_fields["code"] = error.code
            for content in run.break_off(error):
                yield content
        if generations.has_ended:
            run.usage = generations.usage(bool(run.request.timings))
            log_usage(log_fields, run.usage)
        if run.is_kept:
            store.add(run.stored())
        kind = "incomplete" if run.status == CANCELLED else run.status
        yield {"type": f"response.{kind}", "response": run.body()}
    finally:
        running.pop(run.id, None)
