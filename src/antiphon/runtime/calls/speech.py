"""Results of a synthesis: chunks of sound with their words, and its statistics at the end."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.audio.samples import Floats
from antiphon.runtime.calls.events import CallEvent, FinalEvent


@dataclass(frozen=True)
class TimedWord:
    """A word as written in the text, with the seconds at which it is heard."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class SpeechChunk(CallEvent):
    """The sound of a clause: mono float32 samples at `rate` samples per second, beginning at `start`."""

    samples: Floats
    rate: int
    start: float  # seconds from the beginning of the speech
    text: str
    words: tuple[TimedWord, ...]

    @property
    def seconds(self) -> float:
        """Duration of the chunk."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class SpeechStats(FinalEvent):
    """Statistics of a synthesis, in seconds unless the name says otherwise.

    `worst_deficit` is the longest delay of sound for a listener who plays from the first chunk on. `skipped` are the
    first distinct runs of text that could not be read, shortened; `num_skipped_characters` counts the characters of all
    runs.
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
