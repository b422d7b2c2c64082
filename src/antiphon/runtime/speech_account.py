"""`SpeechAccount`: what a synthesis has made, when, and whether a listener would have had to wait for it."""

from __future__ import annotations

import time

from antiphon.runtime.speech import SpeechChunk, SpeechStats
from antiphon.runtime.speech_text import Piece


class SpeechAccount:
    """Kept by the synthesis' own thread."""

    def __init__(self, started: float) -> None:
        self._started = started
        self.first_audio: float | None = None
        self.num_samples = 0
        self.num_characters = 0
        self.skipped: list[str] = []
        self._rate = 1
        self._num_phonemes = 0
        self._num_clauses = 0
        self._worst_deficit = 0.0

    def take(self, piece: Piece) -> None:
        self.skipped += piece.skipped
        self._num_phonemes += max(0, len(piece.utterance.ids) - 2)

    def add(self, chunk: SpeechChunk) -> None:
        now = time.perf_counter()
        self._rate = chunk.rate
        if self.first_audio is None:
            self.first_audio = now
        else:
            self._worst_deficit = max(self._worst_deficit, now - self.first_audio - chunk.start)
        self._num_clauses += 1
        self.num_samples += len(chunk.samples)

    def ahead(self) -> float | None:
        """Seconds of sound that somebody who listens from the first chunk on has not heard yet."""
        if self.first_audio is None:
            return None
        return self.num_samples / self._rate - (time.perf_counter() - self.first_audio)

    def stats(self) -> SpeechStats:
        now = time.perf_counter()
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
            skipped=tuple(self.skipped),
        )
