"""Real speech with pauses, heard by real weights: turns where the pauses are, and their words as in a recording."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from antiphon.runtime.calls.hearing import (
    HearingEnded,
    HearingEvent,
    SpeechStarted,
    TurnEnded,
    TurnGuess,
    TurnResumed,
    TurnText,
    TurnTranscript,
)
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.voice.hearing_stream import AsyncHearing
from antiphon.runtime.voice.turn_detection import PAUSE
from support.sound.speech import JFK_SPEECH, JFK_TEXT, RATE, jfk, librivox_clips, normalize_words, word_error_rate
from support.voice.recorded_hearing import runs_of_words

pytestmark = [pytest.mark.weights, pytest.mark.slow]


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[asyncio.Runner, AsyncEngine]]:
    with asyncio.Runner() as runner:

        async def start() -> AsyncEngine:
            return AsyncEngine("whisper-tiny.en", kv_bytes=256 << 20, quantize="int8", batch_invariant=True)

        engine = runner.run(start())
        yield runner, engine
        engine.close()


def silence(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE), np.float32)


def push(hearing: AsyncHearing, samples: np.ndarray) -> None:
    for start in range(0, len(samples), RATE // 10):
        hearing.push(samples[start : start + RATE // 10])


async def until(hearing: AsyncHearing, kind: type[object]) -> list[HearingEvent]:
    events: list[HearingEvent] = []
    async with asyncio.timeout(120):
        while not (events and isinstance(events[-1], kind)):
            events.append(await anext(hearing))
    return events


@pytest.mark.parametrize("is_manual", [False, True])
def test_turns_have_the_words_of_their_sound(world: tuple[asyncio.Runner, AsyncEngine], is_manual: bool) -> None:
    """Clips with a second between them: as many turns, each as the recording of its sound is transcribed."""
    runner, engine = world
    given = [(jfk(), JFK_TEXT), *librivox_clips()][: 2 if is_manual else 3]
    clips = [soundfile.read(path, dtype="float32")[0] for path, _ in given]
    texts = [text for _, text in given]

    async def run() -> tuple[list[HearingEvent], list[str]]:
        settings = TurnSettings(TurnDetection.MANUAL) if is_manual else TurnSettings(silence_ms=1200)
        hearing = await engine.hear(turns=settings, hypotheses=False)
        for clip in clips:
            push(hearing, np.concatenate([clip, silence(1.3)]))
            if is_manual:
                hearing.commit()
        hearing.finish()
        events = await until(hearing, HearingEnded)
        whole = np.concatenate([piece for clip in clips for piece in (clip, silence(1.3))])
        batch = []
        for event in events:
            if isinstance(event, TurnEnded):
                sound = whole[event.start_ms * 16 : event.end_ms * 16 + PAUSE]
                batch.append((await (await engine.transcribe(sound, timestamps=False)).wait()).text)
        return events, batch

    events, batch = runner.run(run())
    heard = [event.text for event in events if isinstance(event, TurnTranscript)]
    assert len(heard) == len(batch) == len(clips)
    assert len([event for event in events if isinstance(event, SpeechStarted)]) == (0 if is_manual else len(clips))
    assert [runs_of_words(other, turn) for other, turn in zip(batch, heard, strict=True)] == [(0, 0)] * len(clips)
    assert word_error_rate(" ".join(texts), " ".join(heard)) < 0.1, heard
    figures = engine.figures()["whisper-tiny.en"]
    assert (figures["running"], figures["blocks_owned"]) == (0, 0)


def test_hypotheses_guesses_and_a_pause_inside_a_sentence(world: tuple[asyncio.Runner, AsyncEngine]) -> None:
    """What is settled while the person speaks is of the transcript; a guess in a pause is void when they go on."""
    runner, engine = world
    sound = soundfile.read(jfk(), dtype="float32")[0]
    pause = round((JFK_SPEECH[1][1] + 0.5) * RATE)  # after "ask not", in a pause of 0.8 s

    async def run() -> list[HearingEvent]:
        async with await engine.hear(turns=TurnSettings(silence_ms=1200), interval=1.0, backoff=0.0) as hearing:
            push(hearing, sound[:pause])
            events = await until(hearing, TurnGuess)
            for start, end in pairwise((pause, 7 * RATE, 9 * RATE)):  # each end is inside of a word
                push(hearing, sound[start:end])
                events += await until(hearing, TurnText)
            push(hearing, np.concatenate([sound[9 * RATE :], silence(0.3)]))
            events += await until(hearing, TurnGuess)
            push(hearing, silence(1.2))
            return events + await until(hearing, TurnTranscript)

    events = runner.run(run())
    kinds = [type(event) for event in events]
    first, *_, last = [event for event in events if isinstance(event, TurnGuess)]
    assert normalize_words(first.text)[-2:] in (["ask", "not"], ["asked", "not"])  # as weights are rounded
    assert TurnResumed in kinds[kinds.index(TurnGuess) :]
    final, ended = events[-1], events[-2]
    assert isinstance(final, TurnTranscript) and isinstance(ended, TurnEnded)
    assert final.text == last.text and final.marks.is_guess and last.end_ms == ended.end_ms
    assert word_error_rate(JFK_TEXT, final.text) <= 0.05
    settled = [event.settled for event in events if isinstance(event, TurnText)]
    assert settled[-1] and all(after.startswith(before) for before, after in pairwise(settled))
    said = normalize_words(settled[-1])
    assert word_error_rate(" ".join(said), " ".join(normalize_words(final.text)[: len(said)])) <= 0.2
