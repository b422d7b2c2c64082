"""Sound in the messages of a chat: what users say is transcribed, what the model said is looked up."""

from __future__ import annotations

import base64
import binascii
import io
from typing import Any

from antiphon.audio.encode import AudioFormat
from antiphon.audio.samples import RawFormat
from antiphon.runtime.transcription_options import TranscriptionOptions
from antiphon.server.chat.request_schemas import ChatBody
from antiphon.server.chat.spoken_reply import SPEECH_MODEL, SpokenReply
from antiphon.server.http.errors import invalid
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.sound.speech_call import voice_of
from antiphon.server.sound.transcription_call import Hearing
from antiphon.server.text.messages import AssistantMessage, InputAudioPart, TextPart, UserMessage

TRANSCRIPTION_MODEL = "default-transcription"
FORMATS: dict[str, AudioFormat] = {
    "wav": "wav",
    "mp3": "mp3",
    "flac": "flac",
    "opus": "opus",
    "aac": "aac",
    "pcm16": "pcm",
}


def has_sound(body: ChatBody) -> bool:
    """Whether any message has some, or refers to some."""
    return any(
        message.audio is not None
        if isinstance(message, AssistantMessage)
        else isinstance(message, UserMessage)
        and not isinstance(message.content, str)
        and any(isinstance(part, InputAudioPart) for part in message.content)
        for message in body.messages
    )


async def without_sound(serving: Serving, body: ChatBody, key: int | None) -> ChatBody:
    """The chat with text in the place of every sound."""
    messages: list[Any] = []
    for place, message in enumerate(body.messages):
        name = f"messages[{place}]"
        if isinstance(message, UserMessage) and not isinstance(message.content, str):
            parts = [
                await _heard(serving, part, f"{name}.content[{index}].input_audio")
                if isinstance(part, InputAudioPart)
                else part
                for index, part in enumerate(message.content)
            ]
            message = message.model_copy(update={"content": parts})
        elif isinstance(message, AssistantMessage) and message.audio is not None:
            said = serving.sounds.get(message.audio.id, key)
            if said is None and not message.content:
                raise invalid(f"{name}.audio: there is no sound {message.audio.id[:100]!r}", f"{name}.audio")
            message = message.model_copy(update={"content": message.content or said, "audio": None})
        messages.append(message)
    return body.model_copy(update={"messages": messages})


async def _heard(serving: Serving, part: InputAudioPart, param: str) -> TextPart:
    try:
        data = base64.b64decode(part.input_audio.data, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(f"{param}.data is not base64", f"{param}.data") from None
    model = await serving.models.ready(TRANSCRIPTION_MODEL, "transcribe")
    raw = RawFormat("s16le", 24_000) if part.input_audio.format == "pcm16" else None
    hearing = Hearing(serving, model, io.BytesIO(data), TranscriptionOptions(), f"{param}.data", raw)
    return TextPart(type="text", text=(await hearing.wait()).text)


async def spoken_reply(serving: Serving, body: ChatBody) -> SpokenReply | None:
    """What speaks the reply, if it is to be spoken."""
    if "audio" not in (body.modalities or ()):
        if body.audio is not None:
            raise invalid('audio goes with modalities ["text", "audio"]', "audio")
        return None
    if body.audio is None:
        raise invalid('modalities ["text", "audio"] need audio with a format and a voice', "audio")
    if (body.n or 1) > 1:
        raise invalid(f"n is {body.n}; a reply that is spoken is one", "n", "unsupported_value")
    model: ReadyModel = await serving.models.ready(SPEECH_MODEL, "synthesize")
    voice = voice_of(serving, model, body.audio.voice, "audio.voice")
    return SpokenReply(serving, model, voice, FORMATS[body.audio.format])
