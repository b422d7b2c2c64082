"""Speech by an engine in its own process: as the engine here speaks, as text grows, for slow readers and leavers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest

from antiphon import Engine
from antiphon.errors import InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.tasks import Speak
from antiphon.runtime.process.client import EngineClient
from antiphon.runtime.speech.call import MAX_UNREAD
from support.engine.engine_client import until_free
from support.engine.forked_engine import ForkedClient

pytestmark = [pytest.mark.weights, pytest.mark.slow]

TEXT = "One choir sings, the other answers. Then both sing together."
MODEL = "hibari-6m"
World = tuple[asyncio.Runner, EngineClient]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with asyncio.Runner() as runner:
        client = ForkedClient(dict(kv_bytes=16 << 20))

        async def start() -> None:
            await client.start()
            loaded = await client.load(MODEL, MODEL)
            assert (loaded.task, [voice.name for voice in loaded.voices]) == ("synthesize", ["heart"])

        runner.run(start())
        yield runner, client
        runner.run(client.close())


def joined(parts: list[SpeechChunk]) -> np.ndarray:
    return np.concatenate([part.samples for part in parts])


def test_the_same_as_here(world: World) -> None:
    """Whole, and appended in pieces that cut words."""
    runner, client = world
    with Engine(MODEL, kv_bytes=16 << 20) as engine:
        synthesis = engine.speak(TEXT)
        expected = synthesis.wait()

    async def speak(call: Speak, pieces: list[str]) -> list[SpeechChunk | SpeechStats]:
        async with client.speak(call) as stream:
            await stream.accepted()
            for piece in pieces:
                stream.append(piece)
            stream.end_text()
            return [*[told async for told in stream], stream.stats]

    grown = [TEXT[start : start + 7] for start in range(0, len(TEXT), 7)]
    for call, pieces in (
        (Speak("whole", MODEL, TEXT, SpeechOptions()), []),
        (Speak("grown", MODEL, grown[0], SpeechOptions(), is_open=True), grown[1:]),
    ):
        *parts, last = runner.run(speak(call, pieces))
        assert isinstance(last, SpeechStats)
        np.testing.assert_allclose(joined(parts), expected, atol=1e-5)  # type: ignore[arg-type]
        assert last.audio_seconds == synthesis.stats.audio_seconds
        words = [word.text for part in parts for word in part.words]  # type: ignore[union-attr]
        assert words == TEXT.replace(",", "").replace(".", "").split()


def test_refusals(world: World) -> None:
    runner, client = world

    async def refused(call: Speak, kind: type[Exception], told: str) -> None:
        with pytest.raises(kind, match=told):
            async for _ in client.speak(call):
                pass

    async def main() -> None:
        plain = SpeechOptions()
        await refused(Speak("a", MODEL, TEXT, SpeechOptions(voice="nobody")), InvalidRequestError, "no voice 'nobody'")
        await refused(Speak("b", MODEL, " ", plain), InvalidRequestError, "no text")
        await refused(Speak("c", MODEL, "\N{SNOWMAN}", plain), InvalidRequestError, "nothing in the text")
        await refused(Speak("d", "other", TEXT, plain), ModelNotFoundError, "not loaded")

    runner.run(main())


def test_a_slow_reader_pauses_its_own_speech(world: World) -> None:
    runner, client = world

    async def main() -> None:
        slow = client.speak(Speak("slow", MODEL, "Yes. " * 60, SpeechOptions()))
        await slow.accepted()
        held = await settled(slow)
        assert MAX_UNREAD <= held <= MAX_UNREAD + 1
        quick = client.speak(Speak("quick", MODEL, TEXT, SpeechOptions()))
        await quick.wait()
        assert isinstance(quick.stats, SpeechStats)
        assert held <= len(slow._items) <= MAX_UNREAD + 1
        await slow.wait()
        assert isinstance(slow.stats, SpeechStats)

    async def settled(stream: object) -> int:
        seen, since = -1, 0
        while since < 15:
            await asyncio.sleep(0.1)
            count = len(stream._items)  # type: ignore[attr-defined]
            seen, since = count, since + 1 if count == seen and count >= MAX_UNREAD else 0
        return seen

    runner.run(main())


def test_leaving_frees_the_engine(world: World) -> None:
    runner, client = world

    async def main() -> None:
        for number in range(3):
            async with client.speak(Speak(f"left-{number}", MODEL, "", SpeechOptions(), is_open=True)) as stream:
                stream.append(TEXT * 5)
                if number:
                    await anext(stream)
        await until_free(client, MODEL)

    runner.run(main())
