"""`POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.server.apis.openai.chat.chat_format import ChatFormat
from antiphon.server.apis.openai.chat.response_schemas import ChatAnswer
from antiphon.server.apis.openai.chat.spoken_chunks import stream_spoken
from antiphon.server.generation.chat.audio_input import has_audio, transcribe_audio
from antiphon.server.generation.chat.chat_call import prepare_chat
from antiphon.server.generation.chat.spoken_reply import prepare_spoken_reply
from antiphon.server.generation.chat.spoken_reply_store import spoken_replies_of
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.wire_format import respond
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.chats import stored_chats_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, unless_disconnected
from antiphon.server.web.http.context import context_of
from antiphon.server.web.http.openapi import described

router = APIRouter()


@router.post("/v1/chat/completions")
@described(body=ChatBody, answer=ChatAnswer, can_stream=True)
async def chat_completions(request: Request) -> Response:
    serving, context, store = serving_of(request), context_of(request), spoken_replies_of(request)
    body = await read_body(request, ChatBody, serving.config.limits.body_bytes)
    if has_audio(body):
        body = await unless_disconnected(request, transcribe_audio(serving, body, store, context.key))
    reply = await prepare_spoken_reply(serving, body)
    chat = await prepare_chat(serving, body)
    context.log_fields["model"] = chat.model.name
    generations = Generations(serving, [chat.call])
    keep = _keeping(request, body) if body.store else None
    wire = ChatFormat(chat, keep, reply)
    if reply is not None:
        context.at_end += [reply.close, lambda: store.put(reply.id, context.key, reply.transcript)]
        if body.stream:
            await unless_disconnected(request, generations.open())
            return EventStream(stream_spoken(generations, wire, reply, context.log_fields), generations.close)
    return await respond(request, generations, wire, body.stream)


def _keeping(request: Request, body: ChatBody) -> Callable[[dict[str, Any]], None]:
    """Return a function that stores an answer with the messages of its request."""
    store, owner = stored_chats_of(request), context_of(request).key
    return lambda answer: store.keep(answer, body.messages, body.metadata, owner)
