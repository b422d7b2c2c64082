"""Dialogues heard by an engine: where turns ended, after how much silence, and what was understood of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from antiphon.runtime.calls.hearing import HearingEnded, HearingEvent, TurnEnded, TurnLooked, TurnTranscript
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.voice.turn_detection import LOOKS, PAUSE, SAMPLES_PER_MS
from antiphon.runtime.voice.turn_settings import Eagerness, TurnDetection, TurnSettings
from support.sound.recorded_turns import Dialogue
from support.sound.speech import RATE, normalize_words

#: An end is at the end of a sentence if it is within so many milliseconds of it.
TOLERANCE_MS = 400


@dataclass(frozen=True)
class HeardTurn:
    """One that the detector ended: milliseconds of the sound, and of the silence after which it was ended."""

    start_ms: int
    end_ms: int
    waited_ms: int
    text: str

    def samples(self) -> slice:
        """The sound that belongs to it."""
        return slice(self.start_ms * SAMPLES_PER_MS, self.end_ms * SAMPLES_PER_MS + PAUSE)


@dataclass(frozen=True)
class TurnAccuracy:
    precision: float  # of the ends that were decided, those at the end of a sentence
    recall: float  # of the ends of sentences, those that were decided before the next one
    waited_ms: float  # on average, at ends of sentences


async def hear(
    engine: AsyncEngine, dialogue: Dialogue, settings: TurnSettings, *, pace: float = 0.0, interval: float = 1.0
) -> list[HeardTurn]:
    """All turns that are heard. Sound is pushed as fast as it is taken, or with `pace` seconds between pieces of 0.1 s.

    With a pace, hypotheses are made while somebody speaks; how many depends on the machine.
    """
    events: list[HearingEvent] = []
    options = {"hypotheses": pace > 0, "interval": interval, "backoff": 0.0}
    async with await engine.hear(turns=settings, **options) as hearing:

        async def read() -> None:
            async for event in hearing:
                events.append(event)
                if isinstance(event, HearingEnded):
                    return

        reading = asyncio.create_task(read())
        for start in range(0, len(dialogue.sound), RATE // 10):
            hearing.push(dialogue.sound[start : start + RATE // 10])
            await asyncio.sleep(pace)
        hearing.finish()
        async with asyncio.timeout(600):
            await reading
    return _turns(events, settings)


def _turns(events: Sequence[HearingEvent], settings: TurnSettings) -> list[HeardTurn]:
    texts = {event.turn: event.text for event in events if isinstance(event, TurnTranscript)}
    looks: dict[tuple[int, int], int] = {}  # of a turn that paused somewhere
    found = []
    for event in events:
        if isinstance(event, TurnLooked):
            looks[event.turn, event.end_ms] = looks.get((event.turn, event.end_ms), 0) + 1
        elif isinstance(event, TurnEnded):
            waited = settings.silence_ms
            if settings.detection is TurnDetection.SEMANTIC_VAD:
                number = looks.get((event.turn, event.end_ms), 0)
                longest = Eagerness.AUTO.longest_wait_ms
                waited = min(longest, LOOKS[number - 1] // SAMPLES_PER_MS) if number else longest
            found.append(HeardTurn(event.start_ms, event.end_ms, waited, texts[event.turn]))
    return found


def accuracy(dialogue: Dialogue, turns: Sequence[HeardTurn]) -> TurnAccuracy:
    """How well the turns that were heard are those that were spoken."""
    ends = [turn.end / SAMPLES_PER_MS for turn in dialogue.turns]
    right = [turn for turn in turns if min(abs(turn.end_ms - end) for end in ends) <= TOLERANCE_MS]
    met = sum(any(abs(turn.end_ms - end) <= TOLERANCE_MS for turn in turns) for end in ends)
    waited = sum(turn.waited_ms for turn in right) / max(1, len(right))
    return TurnAccuracy(len(right) / max(1, len(turns)), met / len(ends), waited)


def runs_of_words(wanted: str, heard: str) -> tuple[int, int]:
    """How many runs of at least two words were left out, and put in. A word in place of another is neither."""
    one, two = normalize_words(wanted), normalize_words(heard)
    lost = doubled = 0
    for _, i, j, k, l in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():  # noqa: E741
        lost += (j - i) - (l - k) >= 2
        doubled += (l - k) - (j - i) >= 2
    return lost, doubled
