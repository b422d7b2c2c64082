"""`POST /v1/audio/speech`: sound streamed as a file or as server-sent events."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, get_args

from fastapi import APIRouter, Request, Response

from antiphon.audio.encode import CONTENT_TYPES, AudioFormat
from antiphon.engine.request import Priority
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.server.generation.sound.encoded_speech import EncodedSpeech, log_speech
from antiphon.server.generation.sound.request_schemas import SpeechBody, SpeechFormat
from antiphon.server.generation.sound.unreadable import unreadable_headers
from antiphon.server.generation.sound.voices import resolve_voice
from antiphon.server.serving.serving import serving_of
from antiphon.server.web.bodies.json_body import read_body
from antiphon.server.web.http.connection import EventStream, unless_disconnected
from antiphon.server.web.http.context import LogFields, context_of
from antiphon.server.web.http.errors import ApiError, invalid
from antiphon.server.web.http.events import event
from antiphon.server.web.http.openapi import described

router = APIRouter()
#: Model frames per second of speech, reported as output tokens.
TOKENS_PER_SECOND = 40
DEFAULT_FORMAT: AudioFormat = "mp3"
SOUND_TYPES = tuple(CONTENT_TYPES[format] for format in get_args(SpeechFormat))


@router.post("/v1/audio/speech")
@described(body=SpeechBody, can_stream=True, other_types=SOUND_TYPES)
async def speech(request: Request) -> Response:
    serving = serving_of(request)
    body = await read_body(request, SpeechBody, serving.config.limits.body_bytes)
    context = context_of(request)
    _check(body, serving.config.limits.speech_characters, context.is_strict)
    if body.instructions:
        context.ignored.add("instructions")
    model = await serving.models.ready(body.model, "synthesize")
    log_fields = context.log_fields
    log_fields["model"] = model.name
    options = _options(body, resolve_voice(serving, model, body.voice, "voice"))
    headers = await asyncio.to_thread(unreadable_headers, model, body.input, options)
    call = EncodedSpeech(serving, model, body.input, options)
    format: AudioFormat = body.response_format or DEFAULT_FORMAT
    said: deque[SpeechChunk] = deque()  # clauses whose words have not been sent
    chunks = call.encoded(format, said.append if body.words else None)

    async def begin() -> bytes:
        """Return the first bytes before any is sent, so that a rejected request still gets its error status."""
        try:
            await call.prepare()
            call.begin()
            return await anext(chunks)
        except BaseException:
            call.close()
            raise

    first = await unless_disconnected(request, begin())
    if body.stream_format == "sse":
        events = _events(first, chunks, call, said, log_fields, bool(body.timings))
        return EventStream(events, call.close)
    return EventStream(_raw(first, chunks, call, log_fields), call.close, CONTENT_TYPES[format], headers)


def _check(body: SpeechBody, limit: int, is_strict: bool) -> None:
    if body.instructions and is_strict:
        message = "instructions are not supported by any model here; choose a voice and a speed instead"
        raise invalid(message, "instructions", "unsupported_value")
    if body.words and body.stream_format != "sse":
        raise invalid("words are sent with stream_format sse only", "words", "unsupported_value")
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
    first: bytes, rest: AsyncGenerator[bytes], call: EncodedSpeech, log_fields: LogFields
) -> AsyncGenerator[bytes]:
    """Yield the sound. An error closes the connection, so that a partial file is not taken for a complete one."""
    try:
        yield first
        async for data in rest:
            yield data
        if call.stats is not None:
            log_speech(log_fields, call.stats)
    finally:
        await rest.aclose()


async def _events(
    first: bytes,
    rest: AsyncGenerator[bytes],
    call: EncodedSpeech,
    said: deque[SpeechChunk],
    log_fields: LogFields,
    with_timings: bool,
) -> AsyncGenerator[bytes]:
    """Yield the events, a clause's words before its sound. An error is the last event."""
    data: bytes | None = first
    try:
        while data is not None:
            while said:
                yield event(word_times(said.popleft()))
            yield event({"type": "speech.audio.delta", "audio": base64.b64encode(data).decode()})
            data = await anext(rest, None)
        assert call.stats is not None
        log_speech(log_fields, call.stats)
        yield event({"type": "speech.audio.done", "usage": speech_usage(call.stats, with_timings)})
    except ApiError as error:
        log_fields["code"] = error.code
        yield event(error.body())
    finally:
        await rest.aclose()


def word_times(chunk: SpeechChunk) -> dict[str, Any]:
    """Return the event with a clause and its words, timed in seconds since the beginning of the speech."""
    return {
        "type": "speech.audio.words",
        "text": chunk.text,
        "start": round(chunk.start, 3),
        "end": round(chunk.start + chunk.seconds, 3),
        "words": [
            {"word": word.text, "start": round(word.start, 3), "end": round(word.end, 3)} for word in chunk.words
        ],
    }


def speech_usage(stats: SpeechStats, with_timings: bool) -> dict[str, Any]:
    made = round(stats.audio_seconds * TOKENS_PER_SECOND)
    usage: dict[str, Any] = {
        "input_tokens": stats.num_phonemes,
        "output_tokens": made,
        "total_tokens": stats.num_phonemes + made,
        "seconds": round(stats.audio_seconds, 3),
        "unreadable_characters": stats.num_skipped_characters,
        "unreadable": list(stats.skipped),
    }
    if with_timings:
        usage["timings"] = {
            "processing": stats.processing_seconds,
            "real_time_factor": stats.real_time_factor,
            "time_to_first_audio": stats.time_to_first_audio,
            "worst_deficit": stats.worst_deficit,
        }
    return usage
