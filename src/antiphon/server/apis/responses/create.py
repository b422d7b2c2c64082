"""`POST /v1/responses`: generates responses, which are stored and can be continued by their id."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.responses.background import start_in_background
from antiphon.server.apis.responses.events import ResponseEvents, Stores
from antiphon.server.apis.responses.history import history
from antiphon.server.apis.responses.request_schemas import ResponseBody
from antiphon.server.apis.responses.response_schemas import ResponseAnswer
from antiphon.server.apis.responses.run import ResponseRun
from antiphon.server.apis.responses.store import store_of
from antiphon.server.apis.responses.tools import with_available_tools
from antiphon.server.apis.responses.truncation import prepare_fitting
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.stored.conversations import conversations_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.openapi import described
from antiphon.server.web.middleware.internal_call import CALLER, Caller

router = APIRouter()

#: Field of this route by the field that an error of a chat names.
PARAMS = {"messages": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}


@router.post("/v1/responses")
@described(body=ResponseBody, answer=ResponseAnswer, can_stream=True)
async def create_response(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = with_available_tools(await read_body(request, ResponseBody, serving.config.limits.body_bytes), context)
    caller: Caller | None = request.scope.get(CALLER)
    response_id = None if caller is None else caller.background_id
    if body.store is None and context.is_low_priority and not body.background:  # a batch stores its results in a file
        body = body.model_copy(update={"store": False})
    if body.background and response_id is None:
        return await start_in_background(request, body)
    stores = (store_of(request), conversations_of(request))
    run = await _prepare(serving, stores, body, context.key, response_id)
    context.log_fields["model"] = run.chat.model.name
    generations = Generations(serving, [run.chat.call])
    return await respond(request, generations, ResponseEvents(run, stores, generations.cancel), body.stream)


async def _prepare(
    serving: Serving, stores: Stores, body: ResponseBody, owner: int | None, response_id: str | None
) -> ResponseRun:
    """Prepare the generation, and raise every error that can be detected before the engine receives the request."""
    found = await history(body.input, body.previous_response_id, body.conversation, stores, owner)
    try:
        chat = await prepare_fitting(serving, body, found.items)
    except ApiError as error:
        error.param = PARAMS.get(error.param or "", error.param)
        raise
    log = None if response_id is None else stores[0].expected.get(response_id)
    return ResponseRun(body, chat, found, owner, response_id, log)
