"""Measurements: single turns beside the sequential pipeline, interruptions, and concurrent sessions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from antiphon.audio.samples import SPEECH_RATE
from conversation import protocol
from conversation.sequential import SequentialPipeline, SequentialTurn
from conversation.talker import Answer, Talker
from support.sound.recorded_turns import Clip

Say = Callable[[str], None]


@dataclass(frozen=True)
class TurnFigures:
    """Answered turn. `seconds` runs from the annotated end of speech to the first sound."""

    clip: str
    seconds: float
    waterfall: dict[str, int]
    transcript: str
    answer: str
    gaps: list[float]
    num_turns: int  # turns that the sentence was split into
    late: float  # maximum seconds by which the client sent sound too late

    @property
    def is_whole(self) -> bool:
        return self.num_turns == 1

    @property
    def is_at_first_look(self) -> bool:
        return self.is_whole and self.waterfall.get("turn_decided", 1 << 30) < protocol.FIRST_LOOK_MS


@dataclass
class Figures:
    """Measurements of a run. A pair is a turn and the same turn in sequence."""

    pairs: list[tuple[TurnFigures, SequentialTurn]] = field(default_factory=list)
    interruptions: list[float] = field(default_factory=list)
    crowd: list[TurnFigures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def plain(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Stage:
    """Server and settings with which conversations are held."""

    url: str
    transcription_model: str
    say: Say

    async def turn(self, clip: Clip, *, until_played: bool = False) -> TurnFigures:
        """Hold a single-turn session; raise TimeoutError if the turn is not answered."""
        async with Talker.connected(self.url, self.transcription_model, clip) as talker:
            spoken = talker.say(clip, protocol.LEAD_SECONDS) + clip.end / SPEECH_RATE

            def is_over() -> bool:
                """Return whether the last answer has ended.

                An answer cut at its maximum tokens counts, a cancelled one does not.
                """
                ended = bool(talker.answers) and talker.answers[-1].status in ("completed", "incomplete", "failed")
                return ended and time.monotonic() > spoken

            if not await talker.until(is_over, clip.seconds + protocol.TURN_TIMEOUT):
                raise TimeoutError(f"{clip.name} was not answered: {talker.transcripts} {talker.errors}")
            answer = talker.answers[-1]
            if answer.player.first_sound is None:
                raise TimeoutError(f"{clip.name} was answered without a sound: {answer.status} {answer.text!r}")
            if until_played:
                await asyncio.sleep(answer.player.left(time.monotonic()))
            return TurnFigures(
                clip.name,
                answer.player.first_sound - spoken,
                answer.waterfall,
                " ".join(talker.transcripts),
                answer.text,
                answer.player.gaps,
                len(talker.speech_started),
                talker.late,
            )

    async def interruption(self, clip: Clip, other: Clip) -> float | None:
        """Speak `other` into the answer to `clip`.

        Return the seconds from its onset until the server reports speech, or None if the answer was too short.
        """
        async with Talker.connected(self.url, self.transcription_model, clip) as talker:
            spoken = talker.say(clip, protocol.LEAD_SECONDS) + clip.end / SPEECH_RATE

            def answer() -> Answer | None:
                is_over = time.monotonic() > spoken and talker.answers
                return talker.answers[-1] if is_over and talker.answers[-1].player.first_sound is not None else None

            if not await talker.until(lambda: answer() is not None, clip.seconds + protocol.TURN_TIMEOUT):
                raise TimeoutError(f"{clip.name} was not answered: {talker.transcripts} {talker.errors}")
            found = answer()
            assert found is not None and found.player.first_sound is not None
            await asyncio.sleep(found.player.first_sound + protocol.INTERRUPT_AFTER - time.monotonic())
            if found.player.left(time.monotonic()) < protocol.INTERRUPT_LEFT and found.status != "in_progress":
                return None
            num_before = len(talker.speech_started)
            onset = talker.say(other) + other.start / SPEECH_RATE
            if not await talker.until(lambda: len(talker.speech_started) > num_before, other.seconds + 2.0):
                raise TimeoutError(f"{other.name} did not interrupt")
            return talker.speech_started[num_before] - onset


async def measure_turns(stage: Stage, sequential: SequentialPipeline, clips: Sequence[Clip], figures: Figures) -> None:
    """Measure each clip in a session, then in the sequential pipeline."""
    for clip in clips:
        try:
            turn, after = await stage.turn(clip), await sequential.turn(clip)
        except TimeoutError as error:
            figures.failures.append(str(error))
            stage.say(f"{clip.name:12} failed: {error}")
            continue
        figures.pairs.append((turn, after))
        kind = "first look" if turn.is_at_first_look else "waited" if turn.is_whole else f"{turn.num_turns} turns"
        same = "same answer" if turn.answer.strip() == after.answer.strip() else "other answer"
        stage.say(
            f"{clip.name:12} {turn.seconds:5.2f} s, in sequence {after.first_sound:5.2f} s, {kind}, {same}"
            f"  {turn.transcript!r} -> {turn.answer!r}"
        )


async def measure_interruptions(stage: Stage, clips: Sequence[Clip], count: int, figures: Figures) -> None:
    """Measure `count` interruptions, each of a clip by the clip two further on; answers too short are left out."""
    done = 0
    for number in range(3 * count):
        clip, other = clips[number % len(clips)], clips[(number + 2) % len(clips)]
        try:
            seconds = await stage.interruption(clip, other)
        except TimeoutError as error:
            figures.failures.append(str(error))
            stage.say(f"{clip.name:12} interrupted by {other.name}: {error}")
            done += 1
        else:
            if seconds is None:
                stage.say(f"{clip.name:12} has too short an answer to be interrupted")
                continue
            figures.interruptions.append(seconds)
            stage.say(f"{clip.name:12} interrupted by {other.name} within {1000 * seconds:.0f} ms")
            done += 1
        if done >= count:
            return


async def measure_crowd(stage: Stage, clips: Sequence[Clip], turns_each: int, figures: Figures) -> None:
    """Run concurrent sessions, each with its own clips; each listens to the end of every answer."""

    async def talk(index: int) -> None:
        await asyncio.sleep(index * protocol.STAGGER_SECONDS)
        for number in range(turns_each):
            clip = clips[(index + number * protocol.NUM_SESSIONS) % len(clips)]
            try:
                turn = await stage.turn(clip, until_played=True)
            except TimeoutError as error:
                figures.failures.append(str(error))
                stage.say(f"{clip.name:12} failed: {error}")
                continue
            figures.crowd.append(turn)
            gaps = f", {len(turn.gaps)} gaps {[round(gap, 2) for gap in turn.gaps]}" if turn.gaps else ""
            stage.say(f"{clip.name:12} {turn.seconds:5.2f} s, one of {protocol.NUM_SESSIONS} sessions{gaps}")

    await asyncio.gather(*(talk(index) for index in range(protocol.NUM_SESSIONS)))
