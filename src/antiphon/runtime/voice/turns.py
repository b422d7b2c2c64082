"""`SpeechTurn`: the state of a turn of speech while it is heard and transcribed. Positions are in samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, auto

from antiphon.errors import AntiphonError
from antiphon.runtime.calls.hearing import TurnMarks
from antiphon.runtime.calls.transcript import Segment, joined_text
from antiphon.runtime.transcription.listening.settling import CONTEXT_TOKENS, Hypotheses
from antiphon.runtime.transcription.window.decoding import WindowJob


class JobKind(Enum):
    """A hypothesis of the open window, a guess at the transcript of a turn that pauses, or a closed window."""

    HYPOTHESIS = auto()
    GUESS = auto()
    WINDOW = auto()


@dataclass(eq=False)
class TurnJob:
    """A window of a turn that is being transcribed."""

    kind: JobKind
    turn: SpeechTurn
    start: int
    work: WindowJob
    started: float


@dataclass(frozen=True)
class Outcome:
    """The transcript of a window. A window without speech has no `segment`."""

    segment: Segment | None
    language: str | None
    started: float
    ended: float


@dataclass(eq=False)
class Guess:
    """The transcript of a turn that paused at `end`. `outcome` stays None while the transcript is being made."""

    end: int
    outcome: Outcome | None = None


@dataclass(eq=False)
class SpeechTurn:
    """A turn. Its open window begins at `window_start`; `closed` are earlier windows, not transcribed yet."""

    number: int
    start: int
    hypotheses: Hypotheses
    window_start: int
    seen: int  # position at which the last hypothesis ended
    closed: list[tuple[int, int]] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    language: str | None = None
    guess: Guess | None = None
    #: True once an event has named the turn.
    is_named: bool = False
    first_look: float | None = None
    look_seconds: float = 0.0
    num_hypotheses: int = 0
    hypothesis_seconds: float = 0.0
    #: Position and marks of the end; None until the turn has ended.
    end: int | None = None
    marks: TurnMarks | None = None
    error: AntiphonError | None = None

    def context(self) -> list[int]:
        """Return the last tokens of the text before the open window."""
        return [token for segment in self.segments for token in segment.tokens][-CONTEXT_TOKENS:]

    def text(self, outcome: Outcome | None = None) -> str:
        """Return the text of the transcribed windows and of the outcome."""
        more = [outcome.segment] if outcome is not None and outcome.segment is not None else []
        return joined_text([*self.segments, *more])

    def take(self, outcome: Outcome) -> None:
        """Add the outcome of the first window that is not transcribed yet."""
        if outcome.segment is not None:
            self.segments.append(outcome.segment)
        self.language = outcome.language or self.language
        self.hypotheses.clear()
        if self.marks is not None:
            self.marks = replace(
                self.marks,
                transcription_started=outcome.started,
                transcription_ended=outcome.ended,
                is_guess=outcome.started < self.marks.decided,
            )

    @property
    def is_awaited(self) -> bool:
        """Whether a final text, or a guess, is still to be made."""
        is_guess_awaited = self.guess is not None and self.guess.outcome is None
        return self.error is None and (bool(self.closed) or is_guess_awaited)

    def first_needed(self) -> int:
        """Return the position from which sound is still to be transcribed."""
        return self.closed[0][0] if self.closed else self.window_start
