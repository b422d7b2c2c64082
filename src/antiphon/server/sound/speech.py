"""`POST /v1/audio/speech`, raw or as events, and `GET /v1/audio/voices`."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Query, Request, Response

from antiphon.audio.encode import CONTENT_TYPES, AudioFormat
from antiphon.engine.request import Priority
from antiphon.runtime.speech_options import SpeechOptions
from antiphon.runtime.voice_aliases import parts_of
from antiphon.server.http.bodies import read_body
from antiphon.server.http.errors import ApiError, invalid
from antiphon.server.http.events import event
from antiphon.server.serving.serving import EventStream, json_answer, serving_of, unless_gone
from antiphon.server.sound.request_schemas import SpeechBody
from antiphon.server.sound.speech_call import Speaking, note_spoken, speech_usage, voice_aliases, voice_of
from antiphon.server.sound.unreadable import unreadable_headers

router = APIRouter()
DEFAULT_FORMAT: AudioFormat = "mp3"


@router.post("/v1/audio/speech")
async def speech(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, SpeechBody, serving.config.limits.body_bytes)
    _check(body, serving.config.limits.speech_characters)
    model = await serving.models.ready(body.model, "synthesize")
    figures = request.scope["passage"].figures
    figures["model"] = model.name
    options = _options(body, voice_of(serving, model, body.voice, "voice"))
    headers = await asyncio.to_thread(unreadable_headers, model, body.input, options)
    speaking = Speaking(serving, model, body.input, options)
    format: AudioFormat = body.response_format or DEFAULT_FORMAT
    chunks = speaking.encoded(format)

    async def begin() -> bytes:
        """The first bytes, so that a request that is rejected gets its error status."""
        try:
            speaking.begin()
            return await anext(chunks)
        except BaseException:
            speaking.close()
            raise

    first = await unless_gone(request, begin())
    if body.stream_format == "sse":
        events = _events(first, chunks, speaking, figures, bool(body.timings))
        return EventStream(events, speaking.close)
    return EventStream(_raw(first, chunks, speaking, figures), speaking.close, CONTENT_TYPES[format], headers)


def _check(body: SpeechBody, limit: int) -> None:
    if body.instructions:
        message = "instructions are not supported by any model here; choose a voice and a speed instead"
        raise invalid(message, "instructions", "unsupported_value")
    if not body.input.strip():
        raise invalid("input has no text to speak", "input")
    if len(body.input) > limit:
        raise invalid(f"input has {len(body.input):,} characters; at most {limit:,} are allowed", "input")


def _options(body: SpeechBody, voice: str | None) -> SpeechOptions:
    return SpeechOptions(
        voice=voice,
        speed=1.0 if body.speed is None else body.speed,
        language=body.language,
        pronunciations=body.pronunciations or {},
        priority=Priority.NORMAL if body.priority is None else Priority(body.priority),
        paced=bool(body.paced),
    )


async def _raw(
    first: bytes, rest: AsyncIterator[bytes], speaking: Speaking, figures: dict[str, Any]
) -> AsyncIterator[bytes]:
    """An error is raised and closes the connection, so that a part is not taken for the whole."""
    try:
        yield first
        async for data in rest:
            yield data
        if speaking.stats is not None:
            note_spoken(figures, speaking.stats)
    finally:
        await rest.aclose()  # type: ignore[attr-defined]


async def _events(
    first: bytes, rest: AsyncIterator[bytes], speaking: Speaking, figures: dict[str, Any], with_timings: bool
) -> AsyncIterator[bytes]:
    """An error is the last event."""
    data: bytes | None = first
    try:
        while data is not None:
            yield event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
            data = await anext(rest, None)
        assert speaking.stats is not None
        note_spoken(figures, speaking.stats)
        yield event({"type": "speech.audio.done", "usage": speech_usage(speaking.stats, with_timings)})
    except ApiError as error:
        figures["code"] = error.code
        yield event(error.body())
    finally:
        await rest.aclose()  # type: ignore[attr-defined]


@router.get("/v1/audio/voices")
async def voices(request: Request, model: str = Query("default-speech", min_length=1, max_length=512)) -> Response:
    """The voices of a model, loaded if need be: first its own, then the aliases, each with what it leads to."""
    serving = serving_of(request)
    ready = await serving.models.ready(model, "synthesize")
    aliases = voice_aliases(serving, ready)
    voices = {voice.name: voice for voice in ready.loaded.voices}
    data = []
    for name, same_as in [*((name, None) for name in voices), *aliases.items()]:
        voice = voices[parts_of(same_as or name)[0][0]]
        data.append(
            {
                "id": name,
                "object": "voice",
                "name": name,
                "language": voice.language,
                "gender": voice.gender,
                "aliases": sorted(alias for alias, target in aliases.items() if target == name),
                "same_as": same_as,
            }
        )
    content = {"object": "list", "model": ready.name, "default": ready.loaded.default_voice, "data": data}
    return json_answer(content)
