"""Turns detected in dialogues: where each turn ended, after how much silence, and its transcript."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from antiphon.audio.room import RoomLevel
from antiphon.models.base.companions import END_OF_TURN, VOICE_ACTIVITY
from antiphon.models.silero_vad import SileroVAD, voice_probabilities
from antiphon.models.smart_turn import SmartTurn
from antiphon.runtime.calls.hearing import HearingEvent, TurnEnded, TurnTranscript
from antiphon.runtime.calls.turn_settings import TurnSettings
from antiphon.runtime.frontend.async_engine import AsyncEngine
from antiphon.runtime.loading.loading import load_model
from antiphon.runtime.voice.end_of_turn import LOOK_SAMPLES
from antiphon.runtime.voice.turn_detection import PAUSE, SAMPLES_PER_MS, Began, Completed, Look, TurnDetector
from support.sound.recorded_turns import Dialogue
from support.sound.speech import RATE, normalize_words

#: Maximum milliseconds between a detected end and the end of a sentence that it matches.
TOLERANCE_MS = 400
#: Frames that an end-of-turn answer takes: about 70 ms on two cores of a Neoverse-N1.
ANSWER_FRAMES = 3


@dataclass(frozen=True)
class HeardTurn:
    """Turn that the detector ended. `waited_ms` is the silence before its end was detected."""

    start_ms: int
    end_ms: int
    waited_ms: int
    text: str = ""

    def samples(self) -> slice:
        return slice(self.start_ms * SAMPLES_PER_MS, self.end_ms * SAMPLES_PER_MS + PAUSE)


@dataclass(frozen=True)
class TurnAccuracy:
    precision: float  # share of detected ends that are at the end of a sentence
    recall: float  # share of sentence ends that were detected
    waited_ms: float  # average silence before detection, at ends of sentences


def detected(dialogue: Dialogue, settings: TurnSettings) -> list[HeardTurn]:
    """Detect turns without their text; an end-of-turn answer takes three frames, whatever the machine's speed."""
    voice, end_of_turn = load_model(VOICE_ACTIVITY).model, load_model(END_OF_TURN).model
    assert isinstance(voice, SileroVAD) and isinstance(end_of_turn, SmartTurn)
    detector = TurnDetector(settings, voice.chunk)
    sound, start = dialogue.sound, 0
    asked: Look | None = None
    answer, answered_at = 0.0, 0
    found: list[HeardTurn] = []
    room = RoomLevel()
    for probability in voice_probabilities(voice, [sound], [voice.initial_state()])[0].tolist():
        frame = sound[detector.position : detector.position + voice.chunk]
        decisions = detector.push(room.voice(frame, probability))
        position = detector.position
        if asked is not None and position >= answered_at:
            decisions += detector.answer(asked, answer)
            asked = None
        for decision in decisions:
            match decision:
                case Began():
                    start = decision.start
                case Look():
                    asked, answered_at = decision, position + ANSWER_FRAMES * voice.chunk
                    [answer] = end_of_turn.detect([sound[max(start, position - LOOK_SAMPLES) : position]])
                case Completed():
                    found.append(HeardTurn(_ms(start), _ms(decision.end), _ms(position - decision.end)))
    return found


async def hear(
    engine: AsyncEngine, dialogue: Dialogue, settings: TurnSettings, *, pace: float, interval: float = 1.0
) -> list[HeardTurn]:
    """Detect and transcribe turns, with `pace` seconds between pushed blocks of 0.1 s.

    Hypotheses are made during speech; their number depends on the machine.
    """
    events: list[HearingEvent] = []
    async with await engine.hear(turns=settings, interval=interval, backoff=0.0) as hearing:

        async def read() -> None:
            async for event in hearing:
                events.append(event)

        reading = asyncio.create_task(read())
        for start in range(0, len(dialogue.sound), RATE // 10):
            hearing.push(dialogue.sound[start : start + RATE // 10])
            await asyncio.sleep(pace)
        hearing.finish()
        async with asyncio.timeout(600):
            await reading
    texts = {event.turn: event.text for event in events if isinstance(event, TurnTranscript)}
    ended = [event for event in events if isinstance(event, TurnEnded)]
    return [HeardTurn(event.start_ms, event.end_ms, settings.silence_ms, texts[event.turn]) for event in ended]


def _ms(position: int) -> int:
    return position // SAMPLES_PER_MS


def accuracy(dialogue: Dialogue, turns: Sequence[HeardTurn]) -> TurnAccuracy:
    """Compare the ends of the heard turns with those of the spoken turns."""
    ends = [turn.end / SAMPLES_PER_MS for turn in dialogue.turns]
    right = [turn for turn in turns if min(abs(turn.end_ms - end) for end in ends) <= TOLERANCE_MS]
    met = sum(any(abs(turn.end_ms - end) <= TOLERANCE_MS for turn in turns) for end in ends)
    waited = sum(turn.waited_ms for turn in right) / max(1, len(right))
    return TurnAccuracy(len(right) / max(1, len(turns)), met / len(ends), waited)


def runs_of_words(wanted: str, heard: str) -> tuple[int, int]:
    """Return the numbers of lost and of inserted runs of at least two words.

    A run heard as other words of about as many letters counts as neither ("you are the thing", "interesting").
    """
    one, two = normalize_words(wanted), normalize_words(heard)
    lost = doubled = 0
    for _, i, j, k, l in SequenceMatcher(None, one, two, autojunk=False).get_opcodes():  # noqa: E741
        lost += _is_shorter(two[k:l], one[i:j])
        doubled += _is_shorter(one[i:j], two[k:l])
    return lost, doubled


def _is_shorter(words: list[str], others: list[str]) -> bool:
    """Return whether `words` has at least two words fewer than `others`, and less than half as many letters."""
    return len(others) - len(words) >= 2 and 2 * len("".join(words)) < len("".join(others))
