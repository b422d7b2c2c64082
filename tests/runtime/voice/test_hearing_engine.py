"""Hearing through an engine with a tiny random Whisper: nothing is left behind, and what is refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from antiphon.errors import EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.hearing import HearingEnded, SpeechStarted, TurnEnded, TurnText, TurnTranscript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.voice.hearing_stream import AsyncHearing
from support.models.tiny_whisper import tiny_whisper
from support.sound.hearing_scene import FakeDetectors, sound
from support.waiting import wait_until_async

#: Random weights satisfy no guard, so only one attempt is made.
ONCE = TranscriptionOptions(temperatures=(0.0,), no_speech_limit=1.0)


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return tiny_whisper()


def listening(loaded: LoadedModel) -> AsyncEngine:
    engine = AsyncEngine(loaded, kv_bytes=64 << 20)
    engine.port = replace(engine.port, detectors=FakeDetectors())
    return engine


async def until_free(engine: AsyncEngine) -> None:
    """Until nothing runs and no block is owned; its books are right."""

    def in_use() -> int:
        parts = [engine.figures()[name] for name in ("tiny-whisper", "tiny-whisper encoder")]
        return sum(part[key] for part in parts for key in ("running", "waiting", "blocks_owned"))

    await wait_until_async(lambda: asyncio.to_thread(lambda: not in_use()), "all to end", seen=engine.figures)
    engine._loop.call(engine._core.check_integrity).result()


async def until(hearing: AsyncHearing, kind: type[object]) -> list[object]:
    """The events up to the first of that kind."""
    events: list[object] = []
    async with asyncio.timeout(120):
        while not (events and isinstance(events[-1], kind)):
            events.append(await anext(hearing))
    return events


def test_turns_through_the_engine_leave_no_blocks(loaded: LoadedModel) -> None:
    async def run() -> None:
        async with listening(loaded) as engine:
            hearing = await engine.hear(transcription=ONCE)
            hearing.push(sound(0.9, 1280))
            assert isinstance((await until(hearing, TurnText))[0], SpeechStarted)
            hearing.push(sound(0.9, 1280))
            hearing.push(sound(0.05, 640))
            (final,) = [event for event in await until(hearing, TurnTranscript) if isinstance(event, TurnTranscript)]
            assert final.text and final.segments[0].tokens
            await until_free(engine)
            hearing.push(sound(0.9, 640))
            hearing.finish()
            events = await until(hearing, HearingEnded)
            assert [type(event) for event in events if not isinstance(event, TurnText)] == [
                SpeechStarted, TurnEnded, TurnTranscript, HearingEnded,
            ]  # fmt: skip
            with pytest.raises(StopAsyncIteration):
                await anext(hearing)
            hearing.push(sound(0.9, 640))  # after the end: ignored

    asyncio.run(run())


def test_leaving_in_the_middle_frees_everything(loaded: LoadedModel) -> None:
    async def run() -> None:
        async with listening(loaded) as engine:
            for _ in range(3):
                async with await engine.hear(transcription=ONCE) as hearing:
                    hearing.push(sound(0.9, 1280))
                    hearing.push(sound(0.05, 128))
                    await until(hearing, SpeechStarted)
                await until_free(engine)
            left = await engine.hear(transcription=ONCE)
            left.push(sound(0.9, 1280))
        with pytest.raises(EngineError, match="the engine is closed"):
            await until(left, HearingEnded)

    asyncio.run(run())


def test_what_is_refused(loaded: LoadedModel) -> None:
    async def run() -> None:
        async with listening(loaded) as engine:
            with pytest.raises(ModelNotFoundError, match="absent"):
                await engine.hear(model="absent")
            with pytest.raises(InvalidRequestError, match="only English"):
                await engine.hear(transcription=TranscriptionOptions(translate=True))
            with pytest.raises(InvalidRequestError, match="interval is 0"):
                await engine.hear(interval=0)
            with pytest.raises(InvalidRequestError, match="loudness"):
                await engine.hear(loudness=3)

    asyncio.run(run())
