"""`TurnSettings`, `HearingOptions`: when a turn of speech begins and ends, and how it is transcribed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from antiphon.argument_types import check_fields
from antiphon.errors import check_values
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions


class TurnDetection(StrEnum):
    """The end of a turn: a silence of fixed length, the end-of-turn model's decision, or the caller's `commit`."""

    SERVER_VAD = "server_vad"
    SEMANTIC_VAD = "semantic_vad"
    MANUAL = "manual"


class Eagerness(StrEnum):
    """Eagerness to end a turn: how long `semantic_vad` waits at most if the turn does not sound complete."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    AUTO = "auto"

    @property
    def longest_wait_ms(self) -> int:
        """Milliseconds of silence after which the turn ends whatever the model says."""
        return {Eagerness.LOW: 8000, Eagerness.HIGH: 2000}.get(self, 4000)


@dataclass(frozen=True)
class TurnSettings:
    """Turn detection. An invalid value raises `InvalidRequestError` with the value.

    Speech begins at a voice probability of `threshold`; the turn includes `prefix_ms` of sound before it. With
    `server_vad`, `silence_ms` of silence end a turn; `eagerness` is for `semantic_vad`. After `idle_timeout_ms` without
    speech, counted from the end of an answer (`AsyncHearing.rest`), `IdleTimeout` is emitted once.
    """

    detection: TurnDetection = TurnDetection.SERVER_VAD
    threshold: float = 0.5
    prefix_ms: int = 300
    silence_ms: int = 500
    eagerness: Eagerness = Eagerness.AUTO
    idle_timeout_ms: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        idle = self.idle_timeout_ms
        check_values(
            (0 < self.threshold <= 1, "threshold", self.threshold, "above 0 and at most 1"),
            (0 <= self.prefix_ms <= 5000, "prefix_ms", self.prefix_ms, "0 to 5000"),
            (100 <= self.silence_ms <= 60_000, "silence_ms", self.silence_ms, "100 to 60000"),
            (idle is None or 100 <= idle <= 3_600_000, "idle_timeout_ms", idle, "100 to 3600000"),
        )


@dataclass(frozen=True)
class HearingOptions:
    """Options of `AsyncEngine.hear`. `interval` is seconds of new sound between two hypotheses of an open turn.

    After a hypothesis ends, the next one waits for at least `backoff` times its duration. With `hypotheses` off, only
    guesses and final transcripts are made.
    """

    turns: TurnSettings = field(default_factory=TurnSettings)
    transcription: TranscriptionOptions = field(default_factory=TranscriptionOptions)
    hypotheses: bool = True
    interval: float = DEFAULT_INTERVAL
    backoff: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        check_values(
            (self.interval > 0, "interval", self.interval, "above 0 seconds"),
            (self.backoff >= 0, "backoff", self.backoff, "0 or more"),
        )
