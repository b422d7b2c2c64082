"""A conversation with real models: a recording is heard, answered and spoken, and what is spoken is heard again."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from antiphon.audio.decode import decode
from antiphon.audio.pcm import to_s16
from antiphon.audio.resample import resample
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.process.client import EngineState
from antiphon.server.apis.realtime.session_config import UNSETTLED, WORDS
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.server.realtime_server import Session
from support.sound.sounds import wav_bytes
from support.sound.speech import JFK_SPEECH, JFK_TEXT, RATE, jfk, librivox_clips, word_error_rate
from support.waiting import wait_until_async

pytestmark = [pytest.mark.weights, pytest.mark.slow, pytest.mark.asyncio]
CHUNK = 4800
SILENCE_MS = 1500


@pytest.fixture(scope="module")
def server(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    names = ("smollm2-135m", "whisper-tiny.en", "hibari-6m")
    for name in (*names, "english-phonemes", "silero-vad", END_OF_TURN):
        model_path(name)  # it is here from now on
    config = ServerConfig(models=tuple(ModelSpec.of(name) for name in names), memory_bytes=4 << 30, offline=True)
    with running_server(config, {"kv_bytes": 128 << 20, "quantize": "auto"}) as running:
        yield running


async def say(session: Session, samples: np.ndarray) -> None:
    """Samples at 24 kHz, as fast as the server takes them, then a silence."""
    await send(session, np.concatenate([samples, np.zeros(24 * SILENCE_MS, np.float32)]))


async def send(session: Session, samples: np.ndarray) -> None:
    data = to_s16(samples).tobytes()
    for start in range(0, len(data), CHUNK):
        audio = base64.b64encode(data[start : start + CHUNK]).decode()
        await session.send("input_audio_buffer.append", audio=audio)


async def test_a_conversation(server: RunningServer) -> None:
    url = server.url.replace("http", "ws") + "/v1/realtime?model=gpt-realtime"
    recording = resample(decode(jfk()).values, 16_000, 24_000)
    async with connect(url, max_size=None, open_timeout=60) as socket:
        session = Session(socket)
        wanted = {
            "type": "realtime",
            "instructions": "Answer in one short sentence.",
            "max_output_tokens": 24,
            "temperature": 0.0,
            "audio": {
                "input": {
                    "transcription": {"model": "gpt-4o-mini-transcribe"},
                    "turn_detection": {"type": "server_vad", "silence_duration_ms": 700},
                },
                "output": {"voice": "ash"},
            },
        }
        await session.send("session.update", session=wanted)
        await session.until("session.updated")
        await say(session, recording)
        done = await session.until("response.done")
        while len(session.order.transcripts) < 1:
            await session.read()
        response = done["response"]
        assert response["status"] in ("completed", "incomplete") and response["usage"]["input_tokens"] > 20
        heard = " ".join(session.order.transcripts.values())
        assert word_error_rate(JFK_TEXT, heard) <= 0.15  # tiny.en is wrong about a word or two
        written = response["output"][0]["content"][0]["transcript"]
        deltas = [event["delta"] for event in session.order.events if event["type"] == "response.output_audio.delta"]
        spoken = np.frombuffer(b"".join(map(base64.b64decode, deltas)), "<i2").astype(np.float32) / 32768
        marks = json.loads(response["metadata"]["antiphon.waterfall"])
        assert marks["turn_decided"] <= marks["first_sound"]
        session.order.finish()
    with server.openai() as client:
        again = await asyncio.to_thread(
            lambda: client.audio.transcriptions.create(model="whisper-1", file=("a.wav", wav_bytes(spoken, 24_000)))
        )
    assert len(spoken) > 12_000 and word_error_rate(written, again.text) < 0.4
    await asyncio.to_thread(server.wait_until_idle)


async def test_unsettled_words_and_the_times_of_words(server: RunningServer) -> None:
    """The words of a turn are where the recording has them. Neither is in OpenAI's API."""
    url = server.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    recording = resample(decode(jfk()).values, 16_000, 24_000)
    async with connect(url, max_size=None, open_timeout=60) as socket:

        async def until(kind: str) -> dict[str, Any]:
            while True:
                event: dict[str, Any] = json.loads(await asyncio.wait_for(socket.recv(), 60))
                if event["type"].endswith(kind):
                    return event

        session = Session(socket)
        detection = {"type": "server_vad", "silence_duration_ms": 1400}  # it has long pauses
        audio = {"input": {"turn_detection": detection}}
        wanted = {"type": "transcription", "include": [UNSETTLED, WORDS], "audio": audio}
        await session.send("session.update", session=wanted)
        await until("session.updated")
        await send(session, recording[: 24 * 7500])  # in the midst of a phrase
        unsettled = await until(".unsettled")
        await say(session, recording[24 * 7500 :])
        done = await until(".completed")
    assert " ".join(word["word"] for word in done["words"]) == done["transcript"]
    first, last = done["words"][0], done["words"][-1]
    assert abs(first["start"] - JFK_SPEECH[0][0]) < 0.5 and abs(last["end"] - JFK_SPEECH[-1][1]) < 0.5
    assert unsettled["text"].strip() and unsettled["item_id"] == done["item_id"]


PAUSE_MS = (2000, 3200)


def broken_off() -> np.ndarray:
    """ "He was not an ill", a pause, and a whole sentence. There is less silence after it than the longest wait."""
    whole, cut = (decode(path).values for path, _ in librivox_clips()[:2])
    pause = np.zeros(RATE * (PAUSE_MS[1] - PAUSE_MS[0]) // 1000, np.float32)
    return resample(np.concatenate([cut[: RATE * PAUSE_MS[0] // 1000], pause, whole]), RATE, 24_000)


async def ends_of_turns(session: Session, detection: dict[str, Any], number: int) -> list[int]:
    """Where its turns end, in milliseconds. `number` is how often the session has heard it before."""
    wanted = {"type": "transcription", "audio": {"input": {"turn_detection": detection}}}
    await session.send("session.update", session=wanted)
    await session.until("session.updated")
    sound = broken_off()
    await say(session, sound)
    first = number * (len(sound) // 24 + SILENCE_MS)
    ends: list[int] = []
    while not ends or ends[-1] < len(sound) // 24 - 500:
        ends.append((await session.until("input_audio_buffer.speech_stopped"))["audio_end_ms"] - first)
    return ends


async def test_semantic_turn_detection_by_the_real_model(server: RunningServer) -> None:
    """A sentence that is broken off goes on after a pause, and one that is complete is not waited for."""
    url = server.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    async with connect(url, max_size=None, open_timeout=60) as socket:
        session = Session(socket)
        by_silence = await ends_of_turns(session, {"type": "server_vad", "silence_duration_ms": 500}, 0)
        by_model = await ends_of_turns(session, {"type": "semantic_vad"}, 1)
    assert by_silence[0] < PAUSE_MS[0] + 200 and by_model[0] > PAUSE_MS[1]
    loaded = server.serving.models.companion(END_OF_TURN)
    assert loaded is not None
    # The model is kept for the session.
    await wait_until_async(lambda: not loaded.uses, "the model to be released", seen=lambda: loaded.uses)


async def test_an_unknown_voice_is_rejected_with_the_known_ones(server: RunningServer) -> None:
    url = server.url.replace("http", "ws") + "/v1/realtime"
    voices = httpx.get(server.url + "/v1/audio/voices", timeout=60).json()["data"]
    known = [voice["id"] for voice in voices if voice["same_as"] is None]
    async with connect(url, max_size=None, open_timeout=60) as socket:
        session = Session(socket)
        await session.send("session.update", session={"type": "realtime", "audio": {"output": {"voice": "nobody"}}})
        error = (await session.until("error"))["error"]
        assert error["param"] == "session.audio.output.voice" and known[0] in error["message"]
        await session.send("session.update", session={"type": "realtime", "audio": {"output": {"voice": known[-1]}}})
        assert (await session.until("session.updated"))["session"]["audio"]["output"]["voice"] == known[-1]


async def test_the_end_of_turn_model_is_there_again_after_the_engine_died(server: RunningServer) -> None:
    url = server.url.replace("http", "ws") + "/v1/realtime?intent=transcription"
    client = server.serving.client
    async with connect(url, max_size=None, open_timeout=60) as socket:
        session = Session(socket)
        assert (await ends_of_turns(session, {"type": "semantic_vad"}, 0))[0] > PAUSE_MS[1]
        assert client.pid is not None
        os.kill(client.pid, signal.SIGKILL)
        while (await session.until("error"))["error"]["type"] != "server_error":
            pass
        await wait_until_async(lambda: client.state is EngineState.READY, "a new engine", seen=lambda: client.state)
        assert (await ends_of_turns(session, {"type": "semantic_vad"}, 1))[0] > PAUSE_MS[1]
