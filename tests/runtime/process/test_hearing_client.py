"""Hearing by an engine in its own process: real speech, every control, a killed process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import numpy as np
import pytest
import soundfile

from antiphon.errors import EngineError, InvalidRequestError, ModelNotFoundError
from antiphon.runtime.calls.hearing import (
    Cleared,
    CommitEmpty,
    HearingEnded,
    IdleTimeout,
    SettingsRejected,
    SpeechStarted,
    TurnDropped,
    TurnEnded,
    TurnTranscript,
)
from antiphon.runtime.calls.tasks import Hear, Transcribe
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings
from antiphon.runtime.process.client import EngineClient, EngineState
from antiphon.runtime.voice.hearing_stream import AsyncHearing
from antiphon.runtime.voice.turn_detection import PAUSE
from support.engine.engine_client import until_free, until_state
from support.engine.forked_engine import ForkedClient
from support.sound.heard_words import word_errors
from support.sound.speech import RATE, jfk, normalize_words

pytestmark = [pytest.mark.weights, pytest.mark.slow]

MODEL = "whisper-tiny.en"
OPTIONS = HearingOptions(TurnSettings(silence_ms=600), hypotheses=False)
PLAIN = TranscriptionOptions(timestamps=False)


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[asyncio.Runner, EngineClient]]:
    with asyncio.Runner() as runner:
        client = ForkedClient(dict(kv_bytes=128 << 20, quantize="auto"))

        async def start() -> None:
            await client.start()
            await client.load(MODEL, MODEL)

        runner.run(start())
        yield runner, client
        runner.run(client.close())


@pytest.fixture(scope="module")
def sound() -> np.ndarray:
    """With a pause of 0.85 s, in which a turn of `OPTIONS` ends, then others that are shorter."""
    return np.asarray(soundfile.read(jfk(), dtype="float32")[0])


async def until_event(hearing: AsyncHearing, kind: type[object]) -> list[object]:
    events: list[object] = []
    async with asyncio.timeout(120):
        while not (events and isinstance(events[-1], kind)):
            events.append(await anext(hearing))
    return events


def test_turns_have_the_words_of_their_sound(world: tuple[asyncio.Runner, EngineClient], sound: np.ndarray) -> None:
    runner, client = world

    async def main() -> tuple[list[str], list[str]]:
        hearing = client.hear(Hear("one", MODEL, OPTIONS))
        await hearing.accepted()
        for start in range(0, len(sound), RATE):
            hearing.push(sound[start : start + RATE])
        hearing.finish()
        events = await until_event(hearing, HearingEnded)
        batch = []
        for event in events:
            if isinstance(event, TurnEnded):
                cut = sound[event.start_ms * 16 : event.end_ms * 16 + PAUSE]
                call = Transcribe(f"batch-{event.turn}", MODEL, PLAIN, cut)
                batch.append((await client.transcribe(call).wait()).text)
        await until_free(client, MODEL, f"{MODEL} encoder")
        return [event.text for event in events if isinstance(event, TurnTranscript)], batch

    heard, batch = runner.run(main())
    assert len(heard) == len(batch) >= 2
    # A turn's encoder sees less silence after the sound, which may change a word.
    assert all(
        word_errors(normalize_words(one), normalize_words(two)) <= 2 for one, two in zip(batch, heard, strict=True)
    )


def test_every_control_reaches_the_call(world: tuple[asyncio.Runner, EngineClient], sound: np.ndarray) -> None:
    runner, client = world
    start, end = round(3.2 * RATE), round(4.5 * RATE)  # "ask not"
    silence = np.zeros(RATE // 2, np.float32)

    async def main() -> None:
        hearing = client.hear(Hear("two", MODEL, OPTIONS))
        hearing.commit()
        assert isinstance((await until_event(hearing, CommitEmpty))[0], CommitEmpty)
        hearing.configure(TurnSettings(), TranscriptionOptions(translate=True))
        (rejected,) = await until_event(hearing, SettingsRejected)
        assert isinstance(rejected, SettingsRejected) and rejected.kind == "InvalidRequestError"
        hearing.configure(TurnSettings(idle_timeout_ms=300), PLAIN)
        hearing.rest(100)
        hearing.push(silence)
        assert await until_event(hearing, IdleTimeout) == [IdleTimeout(100, 416)]
        hearing.hold_hypotheses(True)
        hearing.set_min_speech(5000)
        hearing.push(sound[start:end])
        hearing.set_min_speech(0)
        hearing.push(np.concatenate([silence, sound[start:end]]))
        (started,) = await until_event(hearing, SpeechStarted)
        assert isinstance(started, SpeechStarted) and started.start_ms > 1800
        hearing.clear()
        assert [type(event) for event in await until_event(hearing, Cleared)][-2:] == [TurnDropped, Cleared]
        hearing.configure(TurnSettings(TurnDetection.MANUAL), PLAIN)
        hearing.push(sound[start:end])
        hearing.commit()
        *_, ended, final = await until_event(hearing, TurnTranscript)
        assert isinstance(ended, TurnEnded) and isinstance(final, TurnTranscript)
        assert normalize_words(final.text) in (["ask", "not"], ["asked", "not"])  # as weights are rounded
        hearing.push(sound)
        hearing.close()
        await until_free(client, MODEL, f"{MODEL} encoder")

    runner.run(main())


def test_what_is_refused(world: tuple[asyncio.Runner, EngineClient]) -> None:
    runner, client = world

    async def main() -> None:
        with pytest.raises(ModelNotFoundError, match="other"):
            await client.hear(Hear("a", "other", OPTIONS)).accepted()
        wrong = HearingOptions(transcription=TranscriptionOptions(translate=True))
        with pytest.raises(InvalidRequestError, match="only English"):
            await client.hear(Hear("b", MODEL, wrong)).accepted()

    runner.run(main())


def test_a_killed_process_gives_an_error_and_the_next_one_hears_again(
    world: tuple[asyncio.Runner, EngineClient], sound: np.ndarray
) -> None:
    runner, client = world

    async def main() -> None:
        hearing = client.hear(Hear("killed", MODEL, OPTIONS))
        await hearing.accepted()
        hearing.push(sound)
        await until_event(hearing, SpeechStarted)
        os.kill((await client.figures())["process"]["pid"], signal.SIGKILL)
        with pytest.raises(EngineError):
            await until_event(hearing, HearingEnded)
        hearing.push(sound)  # ignored

        await until_state(client, EngineState.READY)
        again = client.hear(Hear("again", MODEL, OPTIONS))
        again.push(sound[: 3 * RATE])
        again.finish()
        events = await until_event(again, HearingEnded)
        assert any(isinstance(event, TurnTranscript) and event.text for event in events)

    runner.run(main())
