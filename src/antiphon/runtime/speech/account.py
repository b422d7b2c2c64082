"""`SpeechAccount`: statistics of a synthesis so far, and its lead over a listener."""

from __future__ import annotations

from collections.abc import Callable

from antiphon.audio.speech.unreadable import Unreadable
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.speech.text import Piece

#: Maximum share of the time left that the next utterance should need: other requests may come meanwhile.
IN_TIME = 0.85


class SpeechAccount:
    """Statistics of one synthesis, kept by its own thread. Times are in the engine's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self.first_audio: float | None = None
        self.num_samples = 0
        self.num_characters = 0
        self.unreadable = Unreadable()
        self._rate = 1
        self._num_phonemes = 0
        self._num_spoken = 0  # phonemes whose sound is made
        self._num_clauses = 0
        self._worst_deficit = 0.0
        self._last_made = self._started
        self._per_phoneme = 0.0  # seconds of computation per phoneme of the last utterance

    def take(self, piece: Piece) -> None:
        for run in piece.skipped:
            self.unreadable.add(run)
        self._num_phonemes += max(0, len(piece.utterance.ids) - 2)

    def add(self, chunk: SpeechChunk, num_phonemes: int, submitted: float, made: float) -> None:
        """Record a chunk; the engine received its `num_phonemes` at `submitted` and finished them at `made`."""
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
        """Time at which a listener who plays from the first chunk on has heard all sound so far; None before any."""
        return None if self.first_audio is None else self.first_audio + self.num_samples / self._rate

    def seconds_of(self, num_phonemes: int) -> float:
        """Estimate the seconds that `num_phonemes` take to say, from the speech so far."""
        return num_phonemes * self.num_samples / (self._rate * max(1, self._num_spoken))

    def room(self, coming: int) -> int | None:
        """Return the number of phonemes, after the `coming` ones, that are made in time at the last utterance's pace.

        Return None before the first sound.
        """
        ahead = self.ahead()
        if ahead is None:
            return None
        left = ahead + self.seconds_of(coming) - coming * self._per_phoneme
        return max(0, round(IN_TIME * left / max(self._per_phoneme, 1e-6)))

    def ahead(self) -> float | None:
        """Return the seconds of sound that a listener who plays from the first chunk on has yet to hear.

        Return None before the first sound.
        """
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
