"""What a synthesis gives: sound in pieces, with the words in it, and at the end what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.audio.samples import Floats
from antiphon.runtime.calls.events import CallEvent, FinalEvent


@dataclass(frozen=True)
class TimedWord:
    """A word as it is written in the text, with the seconds at which it is heard."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class SpeechChunk(CallEvent):
    """The sound of a clause: mono samples (32-bit floats) at `rate` a second, beginning at `start` seconds."""

    samples: Floats
    rate: int
    start: float  # seconds from the beginning
    text: str
    words: tuple[TimedWord, ...]

    @property
    def seconds(self) -> float:
        """How long the chunk is."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class SpeechStats(FinalEvent):
    """What a synthesis cost, in seconds unless the name says otherwise.

    `worst_deficit` is how late sound was at worst, for a listener who plays from the first chunk on. `skipped` are the
    first different runs of text that could not be read, shortened; `num_skipped_characters` counts all of them.
    """

    audio_seconds: float
    time_to_first_audio: float
    processing_seconds: float
    real_time_factor: float
    worst_deficit: float
    num_characters: int
    num_phonemes: int
    num_clauses: int
    skipped: tuple[str, ...] = ()
    num_skipped_characters: int = 0
