"""Audio in the messages of a chat: users' recordings are transcribed, spoken replies are looked up by id."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from antiphon.audio.samples import RawFormat
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.server.generation.chat.spoken_reply_store import SpokenReplyStore
from antiphon.server.generation.parameters.chat_schemas import ChatBody
from antiphon.server.generation.parameters.messages import (
    AssistantMessage,
    InputAudioPart,
    TextContentPart,
    UserMessage,
)
from antiphon.server.generation.sound.upload_transcription import UploadTranscription
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import invalid

TRANSCRIPTION_MODEL = "default-transcription"


def has_audio(body: ChatBody) -> bool:
    """Return whether any message contains audio or refers to a spoken reply."""
    return any(
        message.audio is not None
        if isinstance(message, AssistantMessage)
        else isinstance(message, UserMessage)
        and not isinstance(message.content, str)
        and any(isinstance(part, InputAudioPart) for part in message.content)
        for message in body.messages
    )


async def transcribe_audio(serving: Serving, body: ChatBody, store: SpokenReplyStore, key: int | None) -> ChatBody:
    """Return the chat with the text of all recordings and spoken replies in place of the audio."""
    messages: list[Any] = []
    for position, message in enumerate(body.messages):
        name = f"messages[{position}]"
        if isinstance(message, UserMessage) and not isinstance(message.content, str):
            parts = [
                await _transcribe(serving, part, f"{name}.content[{index}].input_audio")
                if isinstance(part, InputAudioPart)
                else part
                for index, part in enumerate(message.content)
            ]
            message = message.model_copy(update={"content": parts})
        elif isinstance(message, AssistantMessage) and message.audio is not None:
            said = store.get(message.audio.id, key)
            if said is None and not message.content:
                raise invalid(f"{name}.audio: there is no sound {message.audio.id[:100]!r}", f"{name}.audio")
            message = message.model_copy(update={"content": message.content or said, "audio": None})
        messages.append(message)
    return body.model_copy(update={"messages": messages})


async def _transcribe(serving: Serving, part: InputAudioPart, param: str) -> TextContentPart:
    try:
        data = base64.b64decode(part.input_audio.data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{param}.data is not base64", f"{param}.data") from None
    model = await serving.models.ready(TRANSCRIPTION_MODEL, "transcribe")
    raw = RawFormat("s16le", 24_000) if part.input_audio.format == "pcm16" else None
    call = UploadTranscription(serving, model, io.BytesIO(data), TranscriptionOptions(), f"{param}.data", raw)
    return TextContentPart(type="text", text=(await call.wait()).text)
