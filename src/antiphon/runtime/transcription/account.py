"""`TranscriptAccount`: the segments and statistics of a transcription so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from antiphon.engine.telemetry import TranscriptRecord
from antiphon.runtime.calls.control import new_id
from antiphon.runtime.calls.transcript import (
    Segment,
    Transcript,
    TranscriptionStats,
    TranscriptProgress,
    joined_text,
)
from antiphon.runtime.transcription.window.decoding import WindowJob


@dataclass
class TranscriptAccount:
    """Segments and statistics of one transcription. Times are of `time.perf_counter`.

    `language` is the caller's, or that of the first window.
    """

    language: str | None
    started: float = field(default_factory=time.perf_counter)
    segments: list[Segment] = field(default_factory=list)
    language_probability: float = 1.0
    speech_seconds: float = 0.0
    first_text: float | None = None
    num_windows: int = 0
    num_fallbacks: int = 0
    num_tokens: int = 0

    def take(self, job: WindowJob) -> None:
        self.num_tokens += job.num_tokens
        self.count_window(job)
        self.note_language(job)

    def count_window(self, job: WindowJob) -> None:
        self.num_windows += 1
        self.num_fallbacks += len(job.attempts) - 1
        self.speech_seconds += job.seconds

    def note_language(self, job: WindowJob) -> None:
        if self.language is None:
            self.language = job.best.language
            self.language_probability = job.best.language_probability

    def note_text(self) -> None:
        if self.first_text is None:
            self.first_text = time.perf_counter() - self.started

    def progress(self, segments: list[Segment], done: float, total: float | None) -> TranscriptProgress:
        """Add segments that have become final; return them with the seconds processed and the total."""
        before = joined_text(self.segments)
        self.segments += segments
        if segments:
            self.note_text()
        return TranscriptProgress(tuple(segments), joined_text(self.segments)[len(before) :], done, total)

    def transcript(self, seconds: float, *, translate: bool, processing: float | None = None) -> Transcript:
        """Return the transcript of `seconds` of sound.

        `processing` is the seconds spent, by default the time since the start.
        """
        stats = TranscriptionStats(
            audio_seconds=seconds,
            speech_seconds=self.speech_seconds,
            processing_seconds=time.perf_counter() - self.started if processing is None else processing,
            time_to_first_text=self.first_text,
            num_windows=self.num_windows,
            num_fallbacks=self.num_fallbacks,
            num_tokens=self.num_tokens,
        )
        return Transcript(
            language=self.language or "en",
            language_probability=self.language_probability,
            duration=seconds,
            segments=tuple(self.segments),
            task="translate" if translate else "transcribe",
            stats=stats,
        )


def record_of(stats: TranscriptionStats, model: str, arrived: float) -> TranscriptRecord:
    return TranscriptRecord(
        id=new_id("transcript"),
        model=model,
        arrived=arrived,
        audio_seconds=stats.audio_seconds,
        processing_seconds=stats.processing_seconds,
        real_time_factor=stats.real_time_factor,
        time_to_first_text=stats.time_to_first_text,
        windows=stats.num_windows,
        fallbacks=stats.num_fallbacks,
        output_tokens=stats.num_tokens,
    )
