"""`POST /v1/responses`: answers that are stored, and can be continued by their id."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.calls.events import Ended
from antiphon.server.apis.responses.background import start_in_background
from antiphon.server.apis.responses.history import history
from antiphon.server.apis.responses.request_schemas import ResponseBody
from antiphon.server.apis.responses.run import IN_PROGRESS, ResponseRun
from antiphon.server.apis.responses.store import CANCELLED, ResponseStore, RunningResponse, store_of
from antiphon.server.apis.responses.tools import with_available_tools
from antiphon.server.apis.responses.truncation import prepare_fitting
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.streaming import closing, log_usage
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.stored.conversations import ConversationStore, conversations_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import SERVER, ApiError
from antiphon.server.web.http.events import named_event
from antiphon.server.web.middleware.internal_call import CALLER, Caller

router = APIRouter()

Stores = tuple[ResponseStore, ConversationStore]

#: From the names of a chat's fields to those of this route.
PARAMS = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = with_available_tools(await read_body(request, ResponseBody, serving.config.limits.body_bytes), context)
    caller: Caller | None = request.scope.get(CALLER)
    response_id = None if caller is None else caller.background_id
    if body.store is None and context.is_low_priority and not body.background:  # a batch has its results in a file
        body = body.model_copy(update={"store": False})
    if body.background and response_id is None:
        return await start_in_background(request, body)
    stores = (store_of(request), conversations_of(request))
    run = await _prepare(serving, stores, body, context.key, response_id)
    context.log_fields["model"] = run.chat.model.name
    generations = Generations(serving, [run.chat.call])
    if body.stream:
        await unless_disconnected(request, generations.open())
        return EventStream(_stream(stores, run, generations, context.log_fields), generations.close)
    return await unless_disconnected(request, _whole(stores, run, generations, context.log_fields))


async def _prepare(
    serving: Serving, stores: Stores, body: ResponseBody, owner: int | None, response_id: str | None
) -> ResponseRun:
    """Check everything that can be rejected before the engine receives the request."""
    found = await history(body.input, body.previous_response_id, body.conversation, stores, owner)
    try:
        chat = await prepare_fitting(serving, body, found.items)
    except ApiError as error:
        error.param = PARAMS.get(error.param or "", error.param)
        raise
    log = None if response_id is None else stores[0].expected.get(response_id)
    return ResponseRun(body, chat, found, owner, response_id, log)


async def _whole(stores: Stores, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]) -> Response:
    async with closing(generations):
        await generations.open()
        async with aclosing(_events(stores, run, generations, log_fields)) as events:
            async for _ in events:
                pass
    if run.error is not None:
        raise run.error
    return json_response(run.body())


async def _stream(
    stores: Stores, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(_events(stores, run, generations, log_fields)) as events:
            async for content in events:
                yield named_event(content["type"], content)
    finally:
        generations.close()


async def _events(
    stores: Stores, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    """The response's events with their numbers; the last one of a response that failed is the error."""
    number = 0
    log = run.log
    try:
        async with aclosing(_unnumbered(stores, run, generations, log_fields)) as events:
            async for event in events:
                numbered = {**event, "sequence_number": number}
                if log is not None:
                    log.append(numbered)
                yield numbered
                number += 1
        if run.error is not None:
            failure = run.error.body()
            yield {**failure["error"], "type": "error", "sequence_number": number, **failure}
    finally:
        if log is not None:
            log.end()


async def _unnumbered(
    stores: Stores, run: ResponseRun, generations: Generations, log_fields: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    """The response's events; it is stored before the last one, which has its final status. A failure is `run.error`."""
    store, conversations = stores
    running = store.running
    running[run.id] = RunningResponse(run.body, generations.cancel, run.owner, run.log)
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
        run.extend_conversation(conversations)
        kind = "incomplete" if run.status == CANCELLED else run.status
        yield {"type": f"response.{kind}", "response": run.body()}
    finally:
        running.pop(run.id, None)
        if run.log is not None and run.status == IN_PROGRESS:  # ended by a deadline or the end of the server
            list(run.break_off(ApiError(503, "the response was ended by the server", code="ended", kind=SERVER)))
            store.add(run.stored())
