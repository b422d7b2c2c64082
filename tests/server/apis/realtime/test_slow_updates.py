"""Updates that wait for a model to be loaded, and what a client does meanwhile."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon.audio.pcm import to_mulaw
from support.server.fake_voice import FakeVoice
from support.server.realtime_server import FakeRealtime, fake_realtime
from support.waiting import wait_until

pytestmark = pytest.mark.asyncio
OTHER_VOICE = {"type": "realtime", "audio": {"output": {"voice": "ash"}}}


@pytest.fixture
def realtime() -> Iterator[FakeRealtime]:
    """Its speech model is being loaded."""

    def load(voice: FakeVoice) -> None:
        voice.speaks.clear()

    with fake_realtime() as server:
        server.prepare = load
        yield server
        requests = server.serving.requests
        wait_until(lambda: not len(requests), "all sessions to end", seen=lambda: list(requests))
        assert all(voice.is_closed for voice in server.voices)


async def test_the_connection_is_read_and_the_order_holds(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        await session.send("session.update", session=OTHER_VOICE)
        await session.turn()
        async with asyncio.timeout(60):
            await (await session.socket.ping())
        assert session.order.kinds == ["session.created"]
        realtime.call(realtime.voice.speaks.set)
        await session.until("response.done")
        kinds = session.order.kinds
        assert kinds.index("session.updated") < kinds.index("input_audio_buffer.speech_started")
    _, settings = realtime.voice.asked[0]
    assert settings.voice == "ash"


async def test_sound_after_an_update_is_of_its_format(realtime: FakeRealtime) -> None:
    async with realtime.session() as session:
        audio = {"input": {"format": {"type": "audio/pcmu"}}, "output": {"voice": "ash"}}
        await session.send("session.update", session={"type": "realtime", "audio": audio})
        tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(8 * 300) / 8000)
        data = to_mulaw(np.concatenate([tone, np.zeros(8 * 400)]).astype(np.float32))
        await session.send("input_audio_buffer.append", audio=base64.b64encode(data).decode())
        async with asyncio.timeout(60):
            await (await session.socket.ping())
        realtime.call(realtime.voice.speaks.set)
        stopped = await session.until("input_audio_buffer.speech_stopped")
        assert stopped["audio_end_ms"] <= 700
        await session.until("response.done")


async def test_a_client_that_leaves_is_noticed(realtime: FakeRealtime) -> None:
    """The fixture waits until the session is gone; the model is never there."""
    async with realtime.session() as session:
        await session.send("session.update", session=OTHER_VOICE)
        await session.turn()
