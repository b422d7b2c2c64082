"""Dialogues joined from real speech, with pauses inside of sentences and noise: ends of turns, words, interruptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.frontend.async_engine import AsyncEngine
from support.sound.recorded_turns import dialogue, recorded_turns
from support.voice.recorded_hearing import accuracy, detected, hear, runs_of_words

pytestmark = [pytest.mark.weights, pytest.mark.slow]
MODEL = "whisper-tiny.en"


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[asyncio.Runner, AsyncEngine]]:
    with asyncio.Runner() as runner:

        async def start() -> AsyncEngine:
            return AsyncEngine(MODEL, kv_bytes=256 << 20, quantize="int8")

        engine = runner.run(start())
        yield runner, engine
        engine.close()


@pytest.mark.parametrize("num_turns", [12, pytest.param(36, marks=pytest.mark.soak)])
def test_ends_of_turns_beside_plain_silence(num_turns: int) -> None:
    """In noise the end-of-turn model cuts fewer sentences than silence of the same mean length.

    This guards what holds today: recall 0.89, precision 0.73 of 36 turns. The aim, 0.85 for both, is missed, since
    pauses after a phrase ("and so, my fellow Americans") are taken for ends. Without noise plain silence was the
    better one.
    """
    spoken = dialogue(recorded_turns(), num_turns, seed=15)
    by_model = accuracy(spoken, detected(spoken, TurnSettings(TurnDetection.SEMANTIC_VAD)))
    by_silence = accuracy(spoken, detected(spoken, TurnSettings(silence_ms=max(100, round(by_model.waited_ms)))))
    print(f"\nend-of-turn model: {by_model}\nplain silence:     {by_silence}")
    assert by_model.recall >= 0.8 and by_model.precision >= by_silence.precision + 0.05, (by_model, by_silence)


@pytest.mark.parametrize("num_turns", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_no_word_is_lost_or_doubled(world: tuple[asyncio.Runner, AsyncEngine], num_turns: int) -> None:
    """Beside what a transcription of each turn's sound has, by the same weights."""
    runner, engine = world
    spoken = dialogue(recorded_turns(), num_turns, seed=16, gap=1.2)
    turns = runner.run(hear(engine, spoken, TurnSettings(silence_ms=800), pace=0.03))

    async def batch() -> list[str]:
        calls = [await engine.transcribe(spoken.sound[turn.samples()], timestamps=False) for turn in turns]
        return [(await call.wait()).text for call in calls]

    others = runner.run(batch())
    assert len(turns) >= num_turns
    differing = [
        f"{turn.start_ms}: {turn.text!r}\n      batch: {other!r}"
        for turn, other in zip(turns, others, strict=True)
        if turn.text.strip() != other.strip()
    ]
    print(f"\n{len(turns)} turns, {len(differing)} not as in a transcription of their sound", *differing, sep="\n")
    counted = [runs_of_words(other, turn.text) for turn, other in zip(turns, others, strict=True)]
    assert [sum(counts) for counts in zip(*counted, strict=True)] == [0, 0], differing


@pytest.mark.parametrize(
    ("wanted", "heard", "counts"),
    [
        ("the quick brown fox jumps", "the quick brown fox jumps", (0, 0)),
        ("the quick brown fox jumps", "the quick jumps", (1, 0)),
        ("the quick brown fox jumps", "the quick brown quick brown fox jumps", (0, 1)),
        ("the quick brown fox jumps", "the crown jumps", (1, 0)),
        ("I mean, you're the thing now", "I mean, interesting now", (0, 0)),
        ("the quick brown fox", "a quick crown fox", (0, 0)),
    ],
)
def test_runs_of_words_that_are_lost_or_doubled(wanted: str, heard: str, counts: tuple[int, int]) -> None:
    assert runs_of_words(wanted, heard) == counts
