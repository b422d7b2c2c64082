"""`SpeechAccount`: what a synthesis has made, when, and whether a listener would have had to wait for it."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.audio.speech.unreadable import Unreadable
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.speech.text import Piece

#: Of the time that is left, what the next utterance should need at most: others may come meanwhile.
IN_TIME = 0.85


class SpeechAccount:
    """Kept by the synthesis' own thread, in the engine's time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self.first_audio: float | None = None
        self.num_samples = 0
        self.num_characters = 0
        self.unreadable = Unreadable()
        self._rate = 1
        self._num_phonemes = 0
        self._num_spoken = 0  # of them, those whose sound is made
        self._num_clauses = 0
        self._worst_deficit = 0.0
        self._last_made = self._started
        self._per_phoneme = 0.0  # seconds that the last utterance took to make, for each of its phonemes

    def take(self, piece: Piece) -> None:
        for run in piece.skipped:
            self.unreadable.add(run)
        self._num_phonemes += max(0, len(piece.utterance.ids) - 2)

    def add(self, chunk: SpeechChunk, num_phonemes: int, submitted: float, made: float) -> None:
        """A chunk of so many phonemes; the engine was given them at `submitted`, and had it at `made`."""
        self._num_spoken += num_phonemes
        now = self._clock()
        self._per_phoneme = (made - max(submitted, self._last_made)) / num_phonemes
        self._last_made = made
        self._rate = chunk.rate
        if self.first_audio is None:
            self.first_audio = now
        else:
            self._worst_deficit = max(self._worst_deficit, now - self.first_audio - chunk.start)
        self._num_clauses += 1
        self.num_samples += len(chunk.samples)

    @property
    def heard_by(self) -> float | None:
        """When a listener who plays from the first chunk on will have heard all that is made."""
        return None if self.first_audio is None else self.first_audio + self.num_samples / self._rate

    def seconds_of(self, num_phonemes: int) -> float:
        """How long so many phonemes will take, by those that are spoken."""
        return num_phonemes * self.num_samples / (self._rate * max(1, self._num_spoken))

    def room(self, coming: int) -> int | None:
        """Phonemes that will be made in time after the `coming` ones, at the pace of the last; None before any."""
        ahead = self.ahead()
        if ahead is None:
            return None
        left = ahead + self.seconds_of(coming) - coming * self._per_phoneme
        return max(0, round(IN_TIME * left / max(self._per_phoneme, 1e-6)))

    def ahead(self) -> float | None:
        """Seconds of sound that a listener who plays from the first chunk on has not heard yet."""
        return None if self.heard_by is None else self.heard_by - self._clock()

    def stats(self) -> SpeechStats:
        now = self._clock()
        seconds = self.num_samples / self._rate
        assert self.first_audio is not None
        return SpeechStats(
            audio_seconds=seconds,
            time_to_first_audio=self.first_audio - self._started,
            processing_seconds=now - self._started,
            real_time_factor=(now - self._started) / seconds,
            worst_deficit=self._worst_deficit,
            num_characters=self.num_characters,
            num_phonemes=self._num_phonemes,
            num_clauses=self._num_clauses,
            skipped=self.unreadable.runs,
            num_skipped_characters=self.unreadable.num_characters,
        )
