"""Clients of the speech and transcription routes."""

from __future__ import annotations

import random
from functools import cache

import orjson
import soundfile

from support.soak.crowd import Crowd, kind
from support.soak.messages import form_bytes, request_bytes
from support.sound.sounds import wav_bytes
from support.sound.speech import jfk

TRANSCRIPTION_MODEL, SPEECH_MODEL = "whisper-tiny.en", "hibari-6m"
TEXTS = ["Hello there.", "Good evening."]


@cache
def recording() -> bytes:
    """Return two seconds of speech as a WAV file."""
    samples, rate = soundfile.read(jfk(), dtype="float32")
    return wav_bytes(samples[: 2 * rate], rate)


@kind(share=1)
async def speaking(crowd: Crowd, source: random.Random) -> None:
    text = source.choice(TEXTS)
    body = {"model": SPEECH_MODEL, "input": text, "voice": "alloy", "response_format": "pcm"}
    response = await crowd.ask(request_bytes("/v1/audio/speech", orjson.dumps(body), crowd.key))
    assert response.status == 200, response
    crowd.same_as_alone(("speech", text), len(response.body))


@kind(share=1)
async def listening(crowd: Crowd, source: random.Random) -> None:
    body, content_type = form_bytes({"model": TRANSCRIPTION_MODEL}, recording())
    response = await crowd.ask(request_bytes("/v1/audio/transcriptions", body, crowd.key, content_type))
    assert response.status == 200, response
    crowd.same_as_alone("recording", response.json()["text"])


@kind(share=1)
async def leaving_in_the_middle_of_sound(crowd: Crowd, source: random.Random) -> None:
    body, content_type = form_bytes({"model": TRANSCRIPTION_MODEL}, recording())
    data = request_bytes("/v1/audio/transcriptions", body, crowd.key, content_type)
    _, writer = await crowd.connect()
    writer.write(data[: source.randrange(len(data))])
    writer.transport.abort()
