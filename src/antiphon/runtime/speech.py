"""What a synthesis gives: sound in pieces, with the words in it, and at the end what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.audio.samples import Floats


@dataclass(frozen=True)
class TimedWord:
    """A word of the text, as it is written, with the seconds at which it is heard."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class SpeechChunk:
    """The sound of a clause: mono samples at the model's rate, and where in the speech they stand."""

    samples: Floats
    rate: int
    start: float  # seconds from the beginning
    text: str
    words: tuple[TimedWord, ...]

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class SpeechStats:
    """Seconds, unless the name says otherwise.

    `worst_deficit` is by how much the sound that was due had not been made, at worst, for a listener who plays from
    the first chunk on at real time. `skipped` are the first different runs of text that could not be read, shortened;
    `num_skipped_characters` counts all of them.
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
