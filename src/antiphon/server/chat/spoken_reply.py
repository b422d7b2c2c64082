"""The speech of a chat's reply, made while its text is being made."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from antiphon.audio.encode import AudioFormat
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.server.chat.spoken_reply_store import KEPT_SECONDS
from antiphon.server.http.errors import ApiError
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.sound.speech_call import Speaking

SPEECH_MODEL = "default-speech"
#: Pieces of text and sound that wait for a slow reader.
QUEUE_CHUNKS = 8


class SpokenReply:
    """Text goes in by `say` as it is written; sound comes out of `sound` as it is made. Always closed."""

    def __init__(self, serving: Serving, model: ReadyModel, voice: str | None, format: AudioFormat) -> None:
        self.id = f"audio_{uuid.uuid4().hex}"
        self.expires = int(time.time() + KEPT_SECONDS)
        self.transcript = ""
        self._format = format
        self._has_begun = asyncio.Event()
        self._is_silent = True
        self._speaking = Speaking(serving, model, "", SpeechOptions(voice=voice), is_open=True)

    def say(self, text: str) -> None:
        """More of the reply."""
        self.transcript += text
        if text.strip() and self._is_silent:
            self._is_silent = False
            self._speaking.begin()
            text = self.transcript
            self._has_begun.set()
        if not self._is_silent:
            self._speaking.append(text)

    def end(self) -> None:
        """There is no more of it."""
        if not self._is_silent:
            self._speaking.end_text()
        self._has_begun.set()

    async def sound(self) -> AsyncIterator[bytes]:
        """The bytes of a file; none if there was nothing that can be spoken."""
        await self._has_begun.wait()
        if self._is_silent:
            return
        chunks = self._speaking.encoded(self._format)
        try:
            async for data in chunks:
                yield data
        except ApiError as error:
            if error.status != 400:  # a reply of signs alone is a reply all the same
                raise
        finally:
            await chunks.aclose()  # type: ignore[attr-defined]

    def close(self) -> None:
        self._speaking.close()

    async def message(self, text: str) -> dict[str, Any]:
        """The `audio` of a whole message; empty fields if nothing of it can be spoken."""
        self.say(text[len(self.transcript) :])
        self.end()
        data = b"".join([piece async for piece in self.sound()])
        if not data:
            return {}
        encoded = base64.b64encode(data).decode()
        audio = {"id": self.id, "data": encoded, "expires_at": self.expires, "transcript": self.transcript}
        return {"content": None, "audio": audio}


async def spoken_chunks(chunks: AsyncIterator[dict[str, Any]], reply: SpokenReply) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a chat with their text as transcript, between them those of its sound; the end comes last."""
    queue: asyncio.Queue[dict[str, Any] | ApiError | None] = asyncio.Queue(QUEUE_CHUNKS)
    held: list[dict[str, Any]] = []
    shape: dict[str, Any] = {}

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
        await chunks.aclose()  # type: ignore[attr-defined]


def _chunk(shape: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
    return {**shape, "choices": [choice]}
