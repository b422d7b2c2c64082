"""`SpokenReply`: the speech of a chat's reply, synthesised while the text is generated."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from antiphon.audio.encode import AudioFormat
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.server.generation.chat.spoken_reply_store import KEPT_SECONDS
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.sound.encoded_speech import EncodedSpeech
from antiphon.server.generation.sound.voices import resolve_voice
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import ApiError, invalid

SPEECH_MODEL = "default-speech"
FORMATS: dict[str, AudioFormat] = {
    "wav": "wav",
    "mp3": "mp3",
    "flac": "flac",
    "opus": "opus",
    "aac": "aac",
    "pcm16": "pcm",
}


class SpokenReply:
    """Speech of one reply. `say` takes text as it is generated; `sound` yields audio as it is synthesised.

    It must be closed.
    """

    def __init__(self, serving: Serving, model: ReadyModel, voice: str | None, format: AudioFormat) -> None:
        self.id = f"audio_{uuid.uuid4().hex}"
        self.expires = int(time.time() + KEPT_SECONDS)
        self.transcript = ""
        self._format = format
        self._has_begun = asyncio.Event()
        self._is_silent = True
        self._call = EncodedSpeech(serving, model, "", SpeechOptions(voice=voice), is_open=True)

    async def prepare(self) -> None:
        """Load the models that read the text."""
        await self._call.prepare()

    def say(self, text: str) -> None:
        self.transcript += text
        if text.strip() and self._is_silent:
            self._is_silent = False
            self._call.begin()
            text = self.transcript
            self._has_begun.set()
        if not self._is_silent:
            self._call.append(text)

    def end(self) -> None:
        """Mark the reply as complete."""
        if not self._is_silent:
            self._call.end_text()
        self._has_begun.set()

    async def sound(self) -> AsyncGenerator[bytes]:
        """Yield the bytes of a sound file; nothing if the reply contains nothing speakable."""
        await self._has_begun.wait()
        if self._is_silent:
            return
        chunks = self._call.encoded(self._format)
        try:
            async for data in chunks:
                yield data
        except ApiError as error:
            if error.status != 400:  # a reply without a speakable word is still a reply
                raise
        finally:
            await chunks.aclose()

    def close(self) -> None:
        self._call.close()

    async def message(self, text: str) -> dict[str, Any]:
        """Return the fields that add sound to a complete message; empty if it contains nothing speakable."""
        self.say(text[len(self.transcript) :])
        self.end()
        data = b"".join([piece async for piece in self.sound()])
        if not data:
            return {}
        encoded = base64.b64encode(data).decode()
        audio = {"id": self.id, "data": encoded, "expires_at": self.expires, "transcript": self.transcript}
        return {"content": None, "audio": audio}


async def prepare_spoken_reply(serving: Serving, body: ChatBody) -> SpokenReply | None:
    """Return the spoken reply that the request asks for, or None."""
    if "audio" not in (body.modalities or ()):
        if body.audio is not None:
            raise invalid('audio requires modalities ["text", "audio"]', "audio")
        return None
    if body.audio is None:
        raise invalid('modalities ["text", "audio"] require audio with a format and a voice', "audio")
    if (body.n or 1) > 1:
        raise invalid(f"n is {body.n}; a spoken reply has one choice", "n", "unsupported_value")
    model: ReadyModel = await serving.models.ready(SPEECH_MODEL, "synthesize")
    voice = resolve_voice(serving, model, body.audio.voice, "audio.voice")
    reply = SpokenReply(serving, model, voice, FORMATS[body.audio.format])
    await reply.prepare()
    return reply
