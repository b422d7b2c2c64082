"""Chunks of a streamed chat with a spoken reply; text and sound are generated concurrently."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator

from antiphon.server.generation.chat.spoken_reply import SpokenReply
from antiphon.server.generation.text.generation import Generations
from antiphon.server.generation.text.wire_format import WireEvent, WireFormat, each_event
from antiphon.server.web.http.context import LogFields
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.http.events import DONE, event

#: Maximum chunks buffered for a slow reader.
QUEUE_CHUNKS = 8


async def stream_spoken(
    generations: Generations, wire: WireFormat, reply: SpokenReply, log_fields: LogFields
) -> AsyncGenerator[bytes]:
    """Yield the events of a chat with a spoken reply, then close the generations. An error is the last event."""
    spoken = spoken_chunks(each_event(generations, wire, log_fields), reply)
    try:
        async for chunk in spoken:
            yield event(chunk)
        yield DONE
    except ApiError as error:
        log_fields["code"] = error.code
        yield event(error.body())
    finally:
        generations.close()
        await spoken.aclose()


async def spoken_chunks(chunks: AsyncGenerator[WireEvent], reply: SpokenReply) -> AsyncGenerator[WireEvent]:
    """Yield the chunks of a chat, their text as `audio.transcript`, with audio chunks between them and the end last."""
    queue: asyncio.Queue[WireEvent | ApiError | None] = asyncio.Queue(QUEUE_CHUNKS)
    held: list[WireEvent] = []
    shape: WireEvent = {}

    async def write() -> None:
        async for chunk in chunks:
            if not chunk["choices"] or chunk["choices"][0]["finish_reason"] is not None:
                held.append(chunk)
                continue
            shape.update(chunk)
            delta = chunk["choices"][0]["delta"]
            text = delta.pop("content", None)
            if text is not None:
                reply.say(text)
                delta["audio"] = {"id": reply.id, "transcript": text}
            await queue.put(chunk)
        reply.end()

    async def speak() -> None:
        async for data in reply.sound():
            audio = {"id": reply.id, "data": base64.b64encode(data).decode()}
            await queue.put(_chunk(shape, {"audio": audio}))

    async def run() -> None:
        writing, speaking = asyncio.create_task(write()), asyncio.create_task(speak())
        try:
            await asyncio.gather(writing, speaking)
            await queue.put(None)
        except ApiError as error:
            await queue.put(error)
        finally:
            writing.cancel()
            speaking.cancel()
            await asyncio.gather(writing, speaking, return_exceptions=True)

    running = asyncio.create_task(run())
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, ApiError):
                raise item
            yield item
        yield _chunk(shape, {"audio": {"id": reply.id, "expires_at": reply.expires}})
        for chunk in held:
            yield chunk
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        reply.close()
        await chunks.aclose()


def _chunk(shape: WireEvent, delta: WireEvent) -> WireEvent:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return {**shape, "choices": [choice]}
