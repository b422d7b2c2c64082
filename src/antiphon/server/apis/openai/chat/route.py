"""`POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from antiphon.runtime.calls.events import Ended
from antiphon.server.apis.openai.chat.chunks import ChatChunks
from antiphon.server.apis.openai.chat.spoken_chunks import stream_spoken
from antiphon.server.apis.openai.chat.whole_answer import KeptChunks
from antiphon.server.generation.chat.audio_input import has_audio, transcribe_audio
from antiphon.server.generation.chat.chat_call import ChatCall, prepare_chat
from antiphon.server.generation.chat.functions import FunctionChunks, as_function_call
from antiphon.server.generation.chat.message_builder import MessageBuilder
from antiphon.server.generation.chat.spoken_reply import SpokenReply, prepare_spoken_reply
from antiphon.server.generation.chat.spoken_reply_store import spoken_replies_of
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.streaming import Chunks, closing, log_usage, stream_events
from antiphon.server.serving.serving import serving_of
from antiphon.server.stored.chats import stored_chats_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, json_response, unless_disconnected
from antiphon.server.web.http.context import context_of

router = APIRouter()


@router.post("/v1/chat/completions")
async def chat_completions(request: Request) -> Response:
    serving, context, store = serving_of(request), context_of(request), spoken_replies_of(request)
    body = await read_body(request, ChatBody, serving.config.limits.body_bytes)
    if has_audio(body):
        body = await unless_disconnected(request, transcribe_audio(serving, body, store, context.key))
    reply = await prepare_spoken_reply(serving, body)
    chat = await prepare_chat(serving, body)
    log_fields = context.log_fields
    log_fields["model"] = chat.model.name
    generations = Generations(serving, [chat.call])
    keep = _keeping(request, body) if body.store else None
    if reply is not None:
        context.at_end += [reply.close, lambda: store.put(reply.id, context.key, reply.transcript)]
    if body.stream:
        await unless_disconnected(request, generations.open())
        chunks: Chunks = ChatChunks(chat, generations, log_fields)
        if keep is not None:
            chunks = KeptChunks(chunks, lambda: generations.usage(bool(body.timings)), keep)
        chunks = chunks if body.functions is None else FunctionChunks(chunks)
        if reply is not None:
            return EventStream(stream_spoken(generations, chunks, reply, log_fields), generations.close)
        return EventStream(stream_events(generations, chunks, log_fields), generations.close)
    return await unless_disconnected(request, _whole(chat, generations, log_fields, reply, keep))


def _keeping(request: Request, body: ChatBody) -> Callable[[dict[str, Any]], None]:
    """A function that stores the answer."""
    store, owner = stored_chats_of(request), context_of(request).key
    return lambda answer: store.keep(answer, body.messages, body.metadata, owner)


async def _whole(
    chat: ChatCall,
    generations: Generations,
    log_fields: dict[str, Any],
    reply: SpokenReply | None,
    keep: Callable[[dict[str, Any]], None] | None,
) -> Response:
    async with closing(generations):
        await generations.open()
        messages = [MessageBuilder(chat) for _ in range(chat.call.n)]
        choices: list[dict[str, Any]] = []
        details: dict[str, Any] = {}
        async for index, event in generations.events():
            if isinstance(event, Ended):
                choices.append(messages[index].choice(index, event))
                details = chat.prompt_details(event) if not index else details
            else:
                messages[index].add(event)
                if reply is not None:
                    reply.say(messages[index].content[len(reply.transcript) :])
    if reply is not None:
        choices[0]["message"] |= await reply.message(messages[0].content)
    usage = generations.usage(bool(chat.body.timings))
    log_usage(log_fields, usage)
    choices.sort(key=lambda choice: int(choice["index"]))
    if chat.body.functions is not None:
        choices = [as_function_call(choice) for choice in choices]
    answer = {**chat.base("chat.completion"), "choices": choices, "usage": usage, **details}
    if keep is not None:
        keep(answer)
    return json_response(answer)
