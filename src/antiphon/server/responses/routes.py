"""`/v1/responses`: answers that are stored, and continued by their id."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from antiphon.runtime.messages import Ended
from antiphon.server.chat.route import understand
from antiphon.server.http.bodies import read_body
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.http.events import closing, named_event, note_usage
from antiphon.server.responses.items import given_items, listed
from antiphon.server.responses.request_schemas import ResponseBody
from antiphon.server.responses.run import ResponseRun, chat_body
from antiphon.server.responses.store import RunningResponse
from antiphon.server.serving.serving import EventStream, Serving, json_answer, serving_of, unless_gone
from antiphon.server.text.generation import Generations

router = APIRouter()
CANCELLED = "cancelled"

#: What the fields of a chat are called here.
PARAMS = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}


@router.post("/v1/responses")
async def create_response(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, ResponseBody, serving.config.limits.body_bytes)
    passage = request.scope["passage"]
    run = await _understand(serving, body, passage.key)
    passage.figures["model"] = run.chat.model.name
    generations = Generations(serving, [run.chat.call])
    if body.stream:
        await unless_gone(request, generations.open())
        return EventStream(_stream(serving, run, generations, passage.figures), generations.close)
    return await unless_gone(request, _whole(serving, run, generations, passage.figures))


async def _understand(serving: Serving, body: ResponseBody, owner: int | None) -> ResponseRun:
    """Everything that can be rejected before the engine sees the request."""
    items, inputs = list(given_items(body)), []
    if body.previous_response_id is not None:
        previous = serving.responses.find(body.previous_response_id, owner, "previous_response_id")
        items = [*previous.items, *items]
        inputs = [*previous.inputs, *previous.body["output"]]
    inputs += [listed(item) for item in given_items(body)]
    model = await serving.models.ready(body.model, "generate")
    try:
        chat = await understand(serving, chat_body(body, items, model))
    except ApiError as error:
        error.param = PARAMS.get(error.param or "", error.param)
        raise
    return ResponseRun(body, chat, items, inputs, owner)


async def _whole(serving: Serving, run: ResponseRun, generations: Generations, figures: dict[str, Any]) -> Response:
    async with closing(generations):
        await generations.open()
        async with aclosing(_events(serving, run, generations, figures)) as events:
            async for _ in events:
                pass
    if run.error is not None:
        raise run.error
    return json_answer(run.body())


async def _stream(
    serving: Serving, run: ResponseRun, generations: Generations, figures: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    try:
        number = 0
        async with aclosing(_events(serving, run, generations, figures)) as events:
            async for content in events:
                yield named_event(content["type"], {**content, "sequence_number": number})
                number += 1
        if run.error is not None:
            failure = run.error.body()
            told = {**failure["error"], "type": "error", "sequence_number": number, **failure}
            yield named_event("error", told)
    finally:
        generations.close()


async def _events(
    serving: Serving, run: ResponseRun, generations: Generations, figures: dict[str, Any]
) -> AsyncGenerator[dict[str, Any], None]:
    """The response's events, the last of which tells how it ended; then it is stored. A failure is `run.error`."""
    running = serving.responses.running
    running[run.id] = RunningResponse(run.body, generations.cancel, run.owner)
    try:
        yield {"type": "response.created", "response": run.body()}
        yield {"type": "response.in_progress", "response": run.body()}
        try:
            async for _, event in generations.events():
                for told in run.end(event) if isinstance(event, Ended) else run.take(event):
                    yield told
        except ApiError as error:
            figures["code"] = error.code
            for told in run.break_off(error):
                yield told
        if generations.has_ended:
            run.usage = generations.usage(bool(run.request.timings))
            note_usage(figures, run.usage)
        if run.is_kept:
            serving.responses.add(run.stored())
        kind = "incomplete" if run.status == CANCELLED else run.status
        yield {"type": f"response.{kind}", "response": run.body()}
    finally:
        running.pop(run.id, None)


@router.get("/v1/responses/{response_id}")
async def get_response(request: Request, response_id: str, stream: bool = False) -> Response:
    if stream:
        raise invalid("a response that is there already is not streamed", "stream", "unsupported_value")
    serving, owner = serving_of(request), request.scope["passage"].key
    running = serving.responses.find_running(response_id, owner)
    return json_answer(running.snapshot() if running else serving.responses.find(response_id, owner).body)


@router.delete("/v1/responses/{response_id}")
async def delete_response(request: Request, response_id: str) -> Response:
    serving_of(request).responses.remove(response_id, request.scope["passage"].key)
    return json_answer({"id": response_id, "object": "response", "deleted": True})


@router.post("/v1/responses/{response_id}/cancel")
async def cancel_response(request: Request, response_id: str) -> Response:
    """End a response that is being written; its stream tells how far it came. Cancelling twice changes nothing."""
    serving, owner = serving_of(request), request.scope["passage"].key
    running = serving.responses.find_running(response_id, owner)
    if running is not None:
        running.cancel()
        return json_answer({**running.snapshot(), "status": CANCELLED})
    stored = serving.responses.find(response_id, owner)
    if stored.body["status"] != CANCELLED:
        message = f"the response has ended with status {stored.body['status']}"
        raise ApiError(400, message, code="response_ended", param="response_id")
    return json_answer(stored.body)


@router.get("/v1/responses/{response_id}/input_items")
async def input_items(
    request: Request,
    response_id: str,
    after: str | None = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
) -> Response:
    """All that the response answers, earlier turns included."""
    stored = serving_of(request).responses.find(response_id, request.scope["passage"].key)
    items = stored.inputs if order == "asc" else stored.inputs[::-1]
    if after is not None:
        ids = [item["id"] for item in items]
        if after not in ids:
            raise invalid(f"no input item has the id {after[:100]!r}", "after")
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": "", "last_id": ""}
    return json_answer({"object": "list", "data": page, **ends, "has_more": len(items) > limit})
