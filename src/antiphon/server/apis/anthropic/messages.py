"""`POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's API over the chats of this server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from fastapi import APIRouter, Request, Response

from antiphon.runtime.calls.events import Ended
from antiphon.server.apis.anthropic.chat_body import chat_body
from antiphon.server.apis.anthropic.output import Event
from antiphon.server.apis.anthropic.request_schemas import CountTokensBody, MessagesBody
from antiphon.server.apis.anthropic.run import MessageRun
from antiphon.server.generation.chat.chat_call import count_prompt, prepare_chat
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.streaming import closing, log_usage
from antiphon.server.serving.serving import Serving, serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import RequestContext, context_of
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import named_event

router = APIRouter()


@router.post("/v1/messages")
async def create_message(request: Request) -> Response:
    serving, context = serving_of(request), context_of(request)
    body = await read_body(request, MessagesBody, serving.config.limits.body_bytes)
    run = MessageRun(body, await prepare_chat(serving, await _chat(serving, body)))
    context.log_fields["model"] = run.chat.model.name
    generations = Generations(serving, [run.chat.call])
    if body.stream:
        await unless_disconnected(request, generations.open())
        return EventStream(_stream(run, generations, context), generations.close)
    return await unless_disconnected(request, _whole(run, generations, context))


@router.post("/v1/messages/count_tokens")
async def count_tokens(request: Request) -> Response:
    """A prompt that is longer than the model's context is counted too."""
    serving = serving_of(request)
    body = await read_body(request, CountTokensBody, serving.config.limits.body_bytes)
    chat = await _chat(serving, body)
    context_of(request).log_fields["model"] = chat.model
    return json_response({"input_tokens": await unless_disconnected(request, count_prompt(serving, chat))})


async def _chat(serving: Serving, body: CountTokensBody) -> ChatBody:
    return chat_body(body, await serving.models.ready(body.model, "generate"))


async def _whole(run: MessageRun, generations: Generations, context: RequestContext) -> Response:
    async with closing(generations):
        await generations.open()
        async with aclosing(_events(run, generations, context)) as events:
            async for _ in events:
                pass
    return json_response(run.message())


async def _stream(run: MessageRun, generations: Generations, context: RequestContext) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(_events(run, generations, context)) as events:
            async for event in events:
                yield named_event(event["type"], event)
    except ApiError as error:
        context.log_fields["code"] = error.code
        yield context.error_format.event(error, context.request_id)
    finally:
        generations.close()


async def _events(run: MessageRun, generations: Generations, context: RequestContext) -> AsyncGenerator[Event, None]:
    for event in run.start():
        yield event
    async for _, update in generations.events():
        for event in run.end(update) if isinstance(update, Ended) else run.take(update):
            yield event
    log_usage(context.log_fields, generations.usage(False))
