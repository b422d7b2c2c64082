"""Connections to a server whose engine is not there: descriptions, limits, and what a client can do wrong."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from wyoming.asr import Transcribe
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.event import Event
from wyoming.info import Describe, Info, SelectProgram
from wyoming.ping import Ping
from wyoming.tts import Synthesize, SynthesizeChunk, SynthesizeStart, SynthesizeStop

from antiphon.server.apis.wyoming.connection import LinkLimits
from antiphon.server.apis.wyoming.frames import Frame, FrameLimits
from antiphon.server.apis.wyoming.server import WyomingLimits
from antiphon.server.apis.wyoming.transcription import WyomingTranscription
from antiphon.server.serving.setup.config import LoadOnUse, ModelSpec, ServerConfig
from antiphon.server.web.http.context import RequestContext
from support.server.wyoming_server import client_of, events_until, wyoming_without_engine
from support.waiting import wait_until_async

pytestmark = pytest.mark.asyncio
CONFIG = ServerConfig(
    models=(ModelSpec.of("whisper-tiny.en"), ModelSpec.of("hibari-6m"), ModelSpec.of("kokoro-82m")),
    load_on_use=LoadOnUse.CONFIGURED,
    offline=True,
)
FORMAT = {"rate": 16_000, "width": 2, "channels": 1}


def limits(connections: int = 64, **link: Any) -> WyomingLimits:
    return WyomingLimits(connections, LinkLimits(**link))


async def error_after(port: int, *events: Event) -> dict[str, Any]:
    """The error that the events lead to, after which the connection ends."""
    async with client_of(port) as client:
        for event in events:
            await client.write_event(event)
        *_, error = await events_until(client, "error")
        assert await client.read_event() is None
        return error.data


async def test_describe_and_ping() -> None:
    async with wyoming_without_engine(CONFIG) as (port, _), client_of(port) as client:
        await client.write_event(Describe().event())
        (event,) = await events_until(client, "info")
        info = Info.from_event(event)
        for program in info.asr:
            assert [(model.name, model.languages, model.installed) for model in program.models] == [
                ("whisper-tiny.en", ["en"], True)
            ]
        voices = {voice.name: voice for voice in info.tts[0].voices}
        assert info.tts[0].voices[0].name == "heart" and voices["bm_fable"].languages == ["en-GB"]
        await client.write_event(Ping("are you there").event())
        (pong,) = await events_until(client, "pong")
        assert pong.data == {"text": "are you there"}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "invalid_frame"),
        (b'{"type": "audio-chunk", "payload_length": 999999999}\n', "frame_too_large"),
        (b'{"type": "x", "data_length": 5}\nhello', "invalid_frame"),
        (b"a" * 100_000, "frame_too_large"),
        (b'{"type": "ping", "data": {"text": 5}}\n', "invalid_value"),
    ],
)
async def test_malformed_frames_get_an_error_and_the_end(data: bytes, code: str) -> None:
    async with wyoming_without_engine(CONFIG) as (port, serving):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        line, _, rest = answer.partition(b"\n")
        assert json.loads(line)["type"] == "error" and json.loads(rest)["code"] == code
        async with client_of(port) as client:  # others are not affected
            await client.write_event(Describe().event())
            await events_until(client, "info")
        page = serving.metrics.text().decode()
        assert f'antiphon:wyoming_rejected_connections_total{{code="{code}"}} 1.0' in page


async def test_a_payload_that_is_too_long_is_rejected_before_it_is_sent() -> None:
    small = limits(frames=FrameLimits(payload_bytes=1000))
    async with wyoming_without_engine(CONFIG, small) as (port, _):
        error = await error_after(port, AudioChunk(**FORMAT, audio=bytes(1002)).event())
        assert error == {"text": "payload_length is 1,002; at most 1,000 bytes are taken", "code": "frame_too_large"}


@pytest.mark.parametrize(
    ("events", "code", "told"),
    [
        ([AudioStop().event()], "unexpected_event", "audio-stop came where a request was expected"),
        ([SynthesizeChunk("a").event()], "unexpected_event", "synthesize-chunk came where a request"),
        ([SynthesizeStop().event()], "unexpected_event", "synthesize-stop came where a request"),
        ([SelectProgram("other").event()], "not_found", "choose one of: antiphon, antiphon-live"),
        ([Event("transcribe", {"name": 5})], "invalid_value", "transcribe: name must be a string"),
        ([Event("transcribe", {"transcript_terms": "a"})], "invalid_value", "must be a list"),
        ([Event("transcribe", {"vad_sensitivity": "high"})], "invalid_value", "relaxed, default, aggressive"),
        ([AudioStart(**FORMAT).event()], "engine_starting", "the engine is starting"),
        ([Transcribe(name="nothing").event(), AudioStart(**FORMAT).event()], "model_not_found", "no model 'nothing'"),
        ([Transcribe(name="hibari-6m").event(), AudioStart(**FORMAT).event()], "engine_starting", "starting"),
        ([Synthesize("Hello.").event()], "engine_starting", "the engine is starting"),
        ([SynthesizeStart().event()], "engine_starting", "the engine is starting"),
        ([Synthesize("  ").event()], "invalid_value", "no text to speak"),
        ([Synthesize("a" * 200_001).event()], "invalid_value", "200,001 characters; at most 200,000"),
        ([Synthesize("a", text_format="ssml").event()], "unsupported_value", "text_format must be text"),
        ([Event("synthesize", {"text": "a", "voice": "x"})], "invalid_value", "voice must be an object"),
        ([Event("synthesize", {"text": 1})], "invalid_value", "text must be a string"),
        ([Event("synthesize", {"text": "a", "voice": {"language": "tlh"}})], "voice_not_found", "no voice speaks"),
    ],
)
async def test_requests_that_fail(events: list[Event], code: str, told: str) -> None:
    async with wyoming_without_engine(CONFIG) as (port, serving):
        error = await error_after(port, *events)
        assert error["code"] == code and told in error["text"]
        assert len(serving.requests) == 0


async def test_unknown_events_are_dropped() -> None:
    async with wyoming_without_engine(CONFIG) as (port, _), client_of(port) as client:
        await client.write_event(Event("run-satellite", {"a": 1}, b"payload"))
        await client.write_event(Describe().event())
        (info,) = await events_until(client, "info")
        assert info.type == "info"


async def test_a_client_that_says_nothing_is_let_go() -> None:
    async with wyoming_without_engine(CONFIG, limits(idle_seconds=0.05)) as (port, _):
        assert (await error_after(port))["code"] == "idle_timeout"


@pytest.mark.parametrize(
    "event",
    [Ping().event(), Describe().event(), Transcribe().event(), SelectProgram("antiphon").event(), Event("other")],
    ids=lambda event: event.type,
)
async def test_a_client_that_asks_for_no_work_is_idle(event: Event) -> None:
    async with wyoming_without_engine(CONFIG, limits(idle_seconds=0.2)) as (port, _):
        assert (await error_while_sending(port, event))["code"] == "idle_timeout"


async def error_while_sending(port: int, event: Event, first: Event | None = None) -> dict[str, Any]:
    """Send the event again and again until the server ends the connection; return its error."""

    async def send(client: AsyncTcpClient) -> None:
        while True:
            await client.write_event(event)
            await asyncio.sleep(0.01)

    async with client_of(port) as client:
        if first is not None:
            await client.write_event(first)
        sending = asyncio.create_task(send(client))
        *_, error = await events_until(client, "error")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return error.data


async def is_served(client: AsyncTcpClient) -> bool:
    """Whether a ping is answered, not the connection ended."""
    await client.write_event(Ping().event())
    return (await events_until(client, "pong", "error"))[-1].type == "pong"


async def test_a_newcomer_takes_the_slot_of_a_client_that_only_pings() -> None:
    async with AsyncExitStack() as stack:
        port, serving = await stack.enter_async_context(wyoming_without_engine(CONFIG, limits(connections=4)))
        clients = []
        for _ in range(4):
            clients.append(await stack.enter_async_context(client_of(port)))
            assert await is_served(clients[-1])
        for client in reversed(clients):  # pings do not make the first one less idle
            assert await is_served(client)
        newcomer = await stack.enter_async_context(client_of(port))
        assert await is_served(newcomer)
        error = (await events_until(clients[0], "error"))[-1].data
        text = "the connection did no work, and another client needed its slot"
        assert error == {"text": text, "code": "connection_evicted"}
        assert all([await is_served(client) for client in clients[1:]])
        page = serving.metrics.text().decode()
        assert 'antiphon:wyoming_rejected_connections_total{code="connection_evicted"} 1.0' in page


@pytest.fixture
def waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transcriptions need no model, and read events until their sound ends."""

    async def run(request: WyomingTranscription, context: RequestContext, first: Frame) -> None:
        while (await request._link.receive()).type != "audio-stop":
            pass

    monkeypatch.setattr(WyomingTranscription, "run", run)


@pytest.mark.usefixtures("waiting_requests")
async def test_clients_with_requests_keep_their_slots() -> None:
    async with wyoming_without_engine(CONFIG, limits(connections=2)) as (port, serving):
        async with client_of(port) as first, client_of(port) as second:
            for client in (first, second):
                await client.write_event(AudioStart(**FORMAT).event())
            requests = serving.requests
            await wait_until_async(lambda: len(requests) == 2, "both requests to begin", seen=lambda: len(requests))
            assert "antiphon:wyoming_connections 2.0" in serving.metrics.text().decode()
            error = await error_after(port)
            text = "2 clients are connected already and have requests"
            assert error == {"text": text, "code": "too_many_connections"}
            await first.write_event(AudioStop().event())
            await wait_until_async(lambda: len(requests) == 1, "a request to end", seen=lambda: len(requests))
            async with client_of(port) as newcomer:
                assert await is_served(newcomer)
            assert await is_served(second)
        page = lambda: serving.metrics.text().decode()  # noqa: E731
        await wait_until_async(lambda: "antiphon:wyoming_connections 0.0" in page(), "all clients to go", seen=page)


@pytest.mark.usefixtures("waiting_requests")
async def test_a_request_that_gets_no_sound_keeps_no_slot() -> None:
    few = limits(connections=1, idle_seconds=0.1)
    async with wyoming_without_engine(CONFIG, few) as (port, serving), client_of(port) as silent:
        await silent.write_event(AudioStart(**FORMAT).event())
        await wait_until_async(lambda: len(serving.requests) == 1, "the request to begin")

        async def newcomer_is_served() -> bool:
            async with client_of(port) as client:
                return await is_served(client)

        while not await newcomer_is_served():
            pass
        assert (await events_until(silent, "error"))[-1].data["code"] == "connection_evicted"


@pytest.mark.usefixtures("waiting_requests")
@pytest.mark.parametrize(
    "event", [Ping().event(), AudioChunk(**FORMAT, audio=b"").event()], ids=lambda event: event.type
)
async def test_a_request_that_gets_no_sound_ends(event: Event) -> None:
    async with wyoming_without_engine(CONFIG, limits(pause_seconds=0.2)) as (port, _):
        error = await error_while_sending(port, event, first=AudioStart(**FORMAT).event())
        assert error == {"text": "the client sent nothing to work on for 0.2 s", "code": "idle_timeout"}


async def test_a_server_that_is_shutting_down_begins_nothing() -> None:
    async with wyoming_without_engine(CONFIG) as (port, serving):
        serving.is_draining = True
        assert (await error_after(port, Synthesize("Hello.").event()))["code"] == "shutting_down"
        page = serving.metrics.text().decode()
        assert 'antiphon:wyoming_requests_total{request="synthesize",status="shutting_down"} 1.0' in page


async def test_a_server_without_models() -> None:
    config = ServerConfig(models=(), load_on_use=LoadOnUse.CONFIGURED, offline=True)
    async with wyoming_without_engine(config) as (port, _):
        error = await error_after(port, Synthesize("Hello.").event())
        assert error == {"text": "this server has no speech model", "code": "model_not_found"}
        error = await error_after(port, AudioStart(**FORMAT).event())
        assert error == {"text": "this server has no transcription model", "code": "model_not_found"}
