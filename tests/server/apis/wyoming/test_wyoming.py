"""The client of the `wyoming` package hears and speaks with real models, and HTTP gives the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wyoming.asr import Transcribe, Transcript
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info, SelectProgram
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

from antiphon.audio.decode import decode
from antiphon.audio.pcm import to_s16
from antiphon.server.serving.setup.config import ModelSpec, ServerConfig
from support.server.http_server import RunningServer, running_server
from support.server.wyoming_server import client_of, events_until, run_client, send_sound, sound_of, wyoming_beside
from support.sound.heard_words import is_heard
from support.sound.sounds import silence, wav_bytes
from support.sound.speech import JFK_SPEECH, JFK_TEXT, jfk
from support.waiting import wait_until

pytestmark = [pytest.mark.weights, pytest.mark.slow]

SPOKEN = "The quick brown fox jumps over the lazy dog. It is happy, and the dog is not."
LONG = " ".join([SPOKEN] * 100)


@pytest.fixture(scope="module")
def sound(model_path: Callable[[str], Path]) -> Iterator[RunningServer]:
    for name in ("whisper-tiny.en", "hibari-6m", "english-phonemes", "silero-vad"):
        model_path(name)  # it is here from now on
    models = tuple(ModelSpec.of(name) for name in ("whisper-tiny.en", "hibari-6m"))
    config = ServerConfig(models=models, memory_bytes=4 << 30, offline=True)
    with running_server(config, {"kv_bytes": 128 << 20, "quantize": "auto"}) as running:
        yield running


@pytest.fixture(scope="module")
def port(sound: RunningServer) -> Iterator[int]:
    with wyoming_beside(sound) as found:
        yield found


@pytest.fixture(scope="module")
def clip() -> bytes:
    """The recording as 16-bit samples, mono at 16 kHz."""
    return to_s16(decode(jfk()).values).tobytes()


def http_speech(sound: RunningServer, text: str) -> bytes:
    with sound.openai() as client:
        return client.audio.speech.create(model="hibari-6m", voice="heart", input=text, response_format="pcm").content


def types(events: list[Event]) -> list[str]:
    """The types of events, chunks in a row counted once."""
    return [event.type for event, before in zip(events, [None, *events], strict=False)
            if before is None or event.type != before.type]  # fmt: skip


def test_home_assistants_transcription(sound: RunningServer, port: int, clip: bytes) -> None:
    """It asks for the description, and in a connection of its own sends a language and the sound."""

    async def described(client: AsyncTcpClient) -> Info:
        await client.write_event(Describe().event())
        (event,) = await events_until(client, "info")
        return Info.from_event(event)

    info = run_client(port, described)
    model = info.asr[0].models[0]
    assert (model.name, model.languages, model.installed) == ("whisper-tiny.en", ["en"], True)
    assert info.tts[0].voices[0].name == "heart" and info.tts[0].voices[0].languages == ["en-US"]

    async def session(client: AsyncTcpClient) -> list[Event]:
        await client.write_event(Transcribe(language="en").event())
        await send_sound(client, clip, step=2048)
        return await events_until(client, "transcript-stop")

    events = run_client(port, session)
    with sound.openai() as client:
        wanted = client.audio.transcriptions.create(model="whisper-tiny.en", file=jfk()).text
    (transcript,) = (Transcript.from_event(event) for event in events if event.type == "transcript")
    assert (transcript.text, transcript.language) == (wanted, "en")
    assert is_heard(JFK_TEXT, wanted)
    chunks = "".join(event.data["text"] for event in events if event.type == "transcript-chunk")
    assert chunks == wanted
    assert types(events)[-4:] == ["transcript-start", "transcript-chunk", "transcript", "transcript-stop"]
    voices = [event for event in events if event.type.startswith("voice-")]
    assert [event.type for event in voices] == ["voice-started", "voice-stopped"] * (len(voices) // 2) and voices
    assert voices[0].data["timestamp"] / 1000 == pytest.approx(JFK_SPEECH[0][0], abs=0.2)
    assert voices[-1].data["timestamp"] / 1000 == pytest.approx(JFK_SPEECH[-1][1], abs=0.35)
    page = sound.metrics()
    assert 'antiphon:wyoming_requests_total{request="transcribe",status="ok"}' in page
    sound.wait_until_idle()


def test_text_and_voice_activity_while_the_sound_still_comes(sound: RunningServer, port: int, clip: bytes) -> None:
    """By the live program. The end of the sound is not sent before there was text."""

    async def session(client: AsyncTcpClient) -> list[Event]:
        form: dict[str, Any] = {"rate": 16_000, "width": 2, "channels": 1}
        await client.write_event(SelectProgram("antiphon-live").event())
        await client.write_event(AudioStart(**form, timestamp=5000).event())
        await client.write_event(AudioChunk(**form, audio=clip + bytes(32_000 * 2)).event())
        events = await events_until(client, "transcript-chunk")
        await client.write_event(AudioStop().event())
        return events + await events_until(client, "transcript-stop")

    events = run_client(port, session)
    assert events[0].type == "voice-started"
    assert events[0].data["timestamp"] / 1000 == pytest.approx(5 + JFK_SPEECH[0][0], abs=0.2)
    text = next(event.data["text"] for event in events if event.type == "transcript")
    assert is_heard(JFK_TEXT, text)
    assert "".join(event.data["text"] for event in events if event.type == "transcript-chunk").strip() == text
    sound.wait_until_idle()


def test_other_rates_widths_and_channels(sound: RunningServer, port: int) -> None:
    stereo = np.repeat(decode(jfk(), rate=48_000).values, 2)
    data = np.rint(stereo * (2**31 - 1)).astype("<i4").tobytes()

    async def session(client: AsyncTcpClient) -> str:
        await client.write_event(Transcribe(name="whisper-tiny.en").event())
        await send_sound(client, data, step=3_000_000, rate=48_000, width=4, channels=2)
        return (await events_until(client, "transcript"))[-1].data["text"]

    assert is_heard(JFK_TEXT, run_client(port, session))


def test_silence_and_nothing_at_all_have_no_text(port: int) -> None:
    async def session(client: AsyncTcpClient) -> list[list[str]]:
        answers = []
        for audio in (to_s16(silence(1)).tobytes(), b""):
            await send_sound(client, audio)
            events = await events_until(client, "transcript-stop")
            answers.append([*types(events), events[-2].data["text"]])
        return answers

    assert run_client(port, session) == [["transcript-start", "transcript", "transcript-stop", ""]] * 2


def test_synthesis(sound: RunningServer, port: int) -> None:
    """Twice over one connection; samples equal those of HTTP."""

    async def session(client: AsyncTcpClient) -> list[list[Event]]:
        answers = []
        for voice in (None, SynthesizeVoice(name="heart")):
            await client.write_event(Synthesize(SPOKEN, voice=voice).event())
            answers.append(await events_until(client, "audio-stop"))
        return answers

    wanted = http_speech(sound, SPOKEN)
    for events in run_client(port, session):
        assert types(events) == ["audio-start", "audio-chunk", "audio-stop"]
        start = AudioStart.from_event(events[0])
        assert (start.rate, start.width, start.channels) == (24_000, 2, 1)
        assert sound_of(events) == wanted
        seconds = len(wanted) / 48_000
        assert events[-1].data["timestamp"] / 1000 == pytest.approx(seconds, abs=0.01)


def test_home_assistants_streamed_synthesis(sound: RunningServer, port: int) -> None:
    """The chunks, then the whole text again, then the end; the text is spoken once."""

    async def session(client: AsyncTcpClient) -> list[Event]:
        await client.write_event(SynthesizeStart(voice=SynthesizeVoice(name="heart")).event())
        for start in range(0, len(SPOKEN), 7):
            await client.write_event(SynthesizeChunk(SPOKEN[start : start + 7]).event())
        await client.write_event(Synthesize(SPOKEN).event())
        await client.write_event(SynthesizeStop().event())
        return await events_until(client, "synthesize-stopped")

    events = run_client(port, session)
    assert types(events) == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    found = np.frombuffer(sound_of(events), "<i2").astype(np.float32)
    wanted = np.frombuffer(http_speech(sound, SPOKEN), "<i2").astype(np.float32)
    assert len(found) == pytest.approx(len(wanted), rel=0.02)
    levels = [float(np.sqrt(np.mean(samples**2))) for samples in (found, wanted)]
    assert levels[0] == pytest.approx(levels[1], rel=0.1)
    with sound.openai() as client:
        file = ("a.wav", wav_bytes(found / 32768, 24_000))
        heard = client.audio.transcriptions.create(model="whisper-tiny.en", file=file).text
    assert is_heard(SPOKEN, heard)


def test_sound_comes_before_the_text_has_ended(port: int) -> None:
    async def session(client: AsyncTcpClient) -> list[Event]:
        await client.write_event(SynthesizeStart().event())
        await client.write_event(SynthesizeChunk("This is the first sentence. And this is").event())
        events = await events_until(client, "audio-chunk")
        await client.write_event(SynthesizeStop().event())
        return events + await events_until(client, "synthesize-stopped")

    assert types(run_client(port, session))[-2:] == ["audio-stop", "synthesize-stopped"]


def test_a_stream_without_text(port: int) -> None:
    async def session(client: AsyncTcpClient) -> list[str]:
        await client.write_event(SynthesizeStart().event())
        await client.write_event(SynthesizeChunk(" ").event())
        await client.write_event(SynthesizeStop().event())
        return types(await events_until(client, "synthesize-stopped"))

    assert run_client(port, session) == ["synthesize-stopped"]


@pytest.mark.parametrize(
    ("events", "code", "told"),
    [
        ([Synthesize("Hello.", voice=SynthesizeVoice(name="nobody")).event()], "invalid_value", "no voice 'nobody'"),
        ([Transcribe(name="hibari-6m").event()], "unsupported_model", "needs a transcription model"),
        ([Transcribe(name="whisper-tiny.en", language="de").event()], "invalid_value", "knows only English"),
        ([Transcribe(name="nothing").event()], "model_not_found", "there is no model 'nothing'"),
        ([SynthesizeStart().event(), Transcribe().event()], "unexpected_event", "transcribe came where"),
    ],
)
def test_errors(sound: RunningServer, port: int, events: list[Event], code: str, told: str) -> None:
    async def session(client: AsyncTcpClient) -> dict[str, Any]:
        for event in events:
            await client.write_event(event)
        if events[-1].type == "transcribe" and len(events) == 1:
            await client.write_event(AudioStart(16_000, 2, 1).event())
        error = (await events_until(client, "error"))[-1]
        assert await client.read_event() is None
        return error.data

    error = run_client(port, session)
    assert error["code"] == code and told in error["text"]
    sound.wait_until_idle()


def test_a_client_that_leaves_frees_what_it_held(sound: RunningServer, port: int, clip: bytes) -> None:
    """In the middle of a synthesis, of a transcription's sound, and while its transcript is awaited."""

    async def speak(client: AsyncTcpClient) -> None:
        await client.write_event(Synthesize(LONG).event())
        await events_until(client, "audio-chunk")

    async def hear(client: AsyncTcpClient) -> None:
        await client.write_event(AudioStart(16_000, 2, 1).event())
        await client.write_event(AudioChunk(16_000, 2, 1, clip).event())
        await events_until(client, "voice-started")

    async def wait(client: AsyncTcpClient) -> None:
        await send_sound(client, clip * 10, step=1 << 20)
        await events_until(client, "voice-started")

    for session in (speak, hear, wait):
        run_client(port, session)
        wait_until(
            lambda: not len(sound.serving.requests), "the request to end", seen=lambda: list(sound.serving.requests)
        )
        sound.wait_until_idle()
    wait_until(
        lambda: "antiphon:wyoming_connections 0.0" in sound.metrics(), "all connections to close", seen=sound.metrics
    )
    assert 'antiphon:wyoming_requests_total{request="synthesize",status="disconnected"}' in sound.metrics()
    assert all(not model.uses for model in sound.serving.models)


def test_a_cancelled_request_is_told_so(sound: RunningServer, port: int) -> None:
    """By an administrator, and in the same way by the end of the time to shut down."""
    from antiphon.server.web.http.errors import ApiError

    before = list(sound.serving.requests)

    async def session(client: AsyncTcpClient) -> Event:
        await client.write_event(Synthesize(LONG).event())
        await events_until(client, "audio-chunk")
        (context,) = [one for one in sound.serving.requests if one not in before]
        assert (context.method, context.path, context.log_fields["model"]) == ("WYOMING", "synthesize", "hibari-6m")
        error = ApiError(499, "cancelled by hand", code="cancelled")
        sound.loop.call_soon_threadsafe(context.end_with, error)
        return (await events_until(client, "error"))[-1]

    assert run_client(port, session).data == {"text": "cancelled by hand", "code": "cancelled"}
    sound.wait_until_idle()


def test_two_clients_at_once(sound: RunningServer, port: int, clip: bytes) -> None:
    async def hear() -> str:
        async with client_of(port) as client:
            await send_sound(client, clip)
            return (await events_until(client, "transcript"))[-1].data["text"]

    async def speak() -> bytes:
        async with client_of(port) as client:
            await client.write_event(Synthesize(SPOKEN).event())
            return sound_of(await events_until(client, "audio-stop"))

    async def both() -> tuple[str, bytes, str]:
        return await asyncio.gather(hear(), speak(), hear())

    first, spoken, second = asyncio.run(both())
    assert is_heard(JFK_TEXT, first) and is_heard(JFK_TEXT, second)
    assert spoken == http_speech(sound, SPOKEN)
