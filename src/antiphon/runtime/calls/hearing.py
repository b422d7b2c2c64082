"""Events of a `HearingCall`: turns of speech as they begin, are guessed at, end, and are transcribed.

Positions (`…_ms`) are milliseconds of the call's sound from the first sample pushed, never wall time. Turns are
numbered from 1. A turn begins with `SpeechStarted` (except a manual turn) and ends with `TurnEnded`; `TurnTranscript`
or `TurnFailed` follows. `TurnDropped` discards a turn. A new turn may begin before the transcript of the last one has
come.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.calls.events import CallEvent, FinalEvent
from antiphon.runtime.calls.transcript import Segment


@dataclass(frozen=True)
class TurnMarks:
    """Times of a turn, in seconds of `time.monotonic`, which processes of one machine share; None: not yet.

    Fields named `…_seconds` are durations.
    """

    #: Arrival of the sound of the last voiced frame.
    speech_ended: float
    #: End of the turn, decided by turn detection or by the caller.
    decided: float
    #: First query of the end-of-turn model, and the total duration of all its queries in this turn.
    first_look: float | None = None
    look_seconds: float = 0.0
    #: Start and end of the transcription that gave the transcript.
    transcription_started: float | None = None
    transcription_ended: float | None = None
    #: True if that transcription began before the turn was decided.
    is_guess: bool = False
    #: Number of earlier hypotheses of this turn, and their total duration.
    num_hypotheses: int = 0
    hypothesis_seconds: float = 0.0


@dataclass(frozen=True)
class SpeechStarted(CallEvent):
    """A turn began, with speech of at least the minimum length. `start_ms` includes the prefix padding."""

    turn: int
    start_ms: int


@dataclass(frozen=True)
class TurnText(CallEvent):
    """A hypothesis of the turn so far. `settled` only grows; `tail` follows it and may change.

    The final transcript is made anew from the whole turn and may differ from both.
    """

    turn: int
    settled: str
    tail: str


@dataclass(frozen=True)
class TurnGuess(CallEvent):
    """The transcript if the turn ends here: `TurnTranscript` repeats its text, unless `TurnResumed` voids it."""

    turn: int
    text: str
    end_ms: int


@dataclass(frozen=True)
class TurnResumed(CallEvent):
    """Speech resumed after a silence in which a guess was started: discard any guess of this turn."""

    turn: int


@dataclass(frozen=True)
class TurnLooked(CallEvent):
    """The end-of-turn model's answer: the probability that the turn, which paused at `end_ms`, is complete."""

    turn: int
    probability: float
    end_ms: int


@dataclass(frozen=True)
class TurnEnded(CallEvent):
    """A turn ended, by turn detection or by `commit`. `end_ms` is where its speech (or sound) ended."""

    turn: int
    start_ms: int
    end_ms: int
    marks: TurnMarks


@dataclass(frozen=True)
class TurnTranscript(CallEvent):
    """The final transcript of a turn that has ended. Segment times are seconds of the call's sound."""

    turn: int
    text: str
    language: str
    segments: tuple[Segment, ...]
    #: Seconds of sound that was transcribed.
    seconds: float
    marks: TurnMarks


@dataclass(frozen=True)
class TurnFailed(CallEvent):
    """The transcription of a turn that has ended failed with an error of class `kind`. The call goes on."""

    turn: int
    kind: str
    message: str


@dataclass(frozen=True)
class TurnDropped(CallEvent):
    """The open turn was discarded: the sound that opened it was not speech, or `clear` was called."""

    turn: int


@dataclass(frozen=True)
class CommitEmpty(CallEvent):
    """`commit` came only `milliseconds` of sound after the last turn: too little for a turn."""

    milliseconds: int


@dataclass(frozen=True)
class Cleared(CallEvent):
    """`clear` took effect at this position: no event of earlier sound follows, except of turns that had ended."""

    end_ms: int


@dataclass(frozen=True)
class IdleTimeout(CallEvent):
    """Nothing was said for the idle timeout after an answer. `start_ms` is where that silence began."""

    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class SettingsRejected(CallEvent):
    """New settings were rejected with an error of class `kind`; the previous settings stay in force."""

    kind: str
    message: str


@dataclass(frozen=True)
class HearingEnded(FinalEvent):
    """The last event: after `finish` all turns are transcribed; after `cancel` the rest is discarded."""

    seconds: float


#: All events of a hearing call, which may also end with an error.
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
