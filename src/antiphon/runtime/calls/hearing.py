"""What a `HearingCall` emits: turns of speech as they begin, are guessed at, end, and are transcribed.

Positions (`…_ms`) are milliseconds of the call's sound, from the first sample that was pushed; never wall time.
Turns are numbered from 1. A turn begins with `SpeechStarted` (a manual one has none) and is over with `TurnTranscript`,
`TurnFailed` or `TurnDropped`. Between the first two comes `TurnEnded`. A new turn may begin before the transcript of
the last one has come.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.calls.events import CallEvent, FinalEvent
from antiphon.runtime.calls.transcript import Segment


@dataclass(frozen=True)
class TurnMarks:
    """When things happened, in seconds of `time.monotonic`, which processes of one machine share; None: not yet.

    `seconds` of jobs and looks are durations.
    """

    #: The sound of the last voiced frame came.
    speech_ended: float
    #: Turn detection, or the caller, ended the turn.
    decided: float
    #: The end-of-turn model was first asked, and all its answers of this turn took so long.
    first_look: float | None = None
    look_seconds: float = 0.0
    #: The transcription that gave the transcript began, and ended.
    transcription_started: float | None = None
    transcription_ended: float | None = None
    #: It had begun before the turn was decided.
    is_guess: bool = False
    #: Hypotheses of this turn before it, and how long they ran.
    num_hypotheses: int = 0
    hypothesis_seconds: float = 0.0


@dataclass(frozen=True)
class SpeechStarted(CallEvent):
    """A turn has begun: speech of at least the minimum. `start_ms` includes the prefix padding."""

    turn: int
    start_ms: int


@dataclass(frozen=True)
class TurnText(CallEvent):
    """A hypothesis of the whole turn so far. `settled` only grows; `tail` follows it and may change.

    The transcript is made anew from the whole turn, and may differ from both.
    """

    turn: int
    settled: str
    tail: str


@dataclass(frozen=True)
class TurnGuess(CallEvent):
    """The transcript, if the turn ends here. `TurnResumed` voids it; else `TurnTranscript` repeats its text."""

    turn: int
    text: str
    end_ms: int


@dataclass(frozen=True)
class TurnResumed(CallEvent):
    """The person went on after a silence in which a guess was begun: a guess of this turn is void."""

    turn: int


@dataclass(frozen=True)
class TurnLooked(CallEvent):
    """The end-of-turn model's answer: the probability that the turn which paused at `end_ms` is complete."""

    turn: int
    probability: float
    end_ms: int


@dataclass(frozen=True)
class TurnEnded(CallEvent):
    """The turn is over: detection decided, or `commit` was called. `end_ms` is where its speech (or sound) ended."""

    turn: int
    start_ms: int
    end_ms: int
    marks: TurnMarks


@dataclass(frozen=True)
class TurnTranscript(CallEvent):
    """The final transcript of a turn that has ended. Times of the segments are seconds of the call's sound."""

    turn: int
    text: str
    language: str
    segments: tuple[Segment, ...]
    #: Of sound that was transcribed.
    seconds: float
    marks: TurnMarks


@dataclass(frozen=True)
class TurnFailed(CallEvent):
    """The transcription of a turn that has ended failed: `kind` is the error's class. The call goes on."""

    turn: int
    kind: str
    message: str


@dataclass(frozen=True)
class TurnDropped(CallEvent):
    """The open turn is none: what opened it was no speech, or `clear` was called."""

    turn: int


@dataclass(frozen=True)
class CommitEmpty(CallEvent):
    """`commit` came with too little sound to be a turn: so many milliseconds since the last turn."""

    milliseconds: int


@dataclass(frozen=True)
class Cleared(CallEvent):
    """`clear` was carried out at this position: no event of sound before it follows, except of turns that had ended."""

    end_ms: int


@dataclass(frozen=True)
class IdleTimeout(CallEvent):
    """Nothing was said for the idle timeout after an answer. `start_ms` is where that began."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class SettingsRejected(CallEvent):
    """Settings that the model cannot follow: `kind` is the error's class. Those before stay in force."""

    kind: str
    message: str


@dataclass(frozen=True)
class HearingEnded(FinalEvent):
    """The last event: after `finish` all turns are transcribed; after `cancel` the rest is dropped."""

    seconds: float


#: All of them. A call may also end with an error.
HearingEvent = (
    SpeechStarted
    | TurnText
    | TurnGuess
    | TurnResumed
    | TurnLooked
    | TurnEnded
    | TurnTranscript
    | TurnFailed
    | TurnDropped
    | CommitEmpty
    | Cleared
    | IdleTimeout
    | SettingsRejected
    | HearingEnded
)
