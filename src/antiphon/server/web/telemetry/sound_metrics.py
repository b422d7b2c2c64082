"""Prometheus metrics of transcription and speech."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

from antiphon.runtime.calls.speech import SpeechStats
from antiphon.runtime.calls.transcript import TranscriptionStats

PREFIX = "antiphon:"
SECONDS = (0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 20, 40, 80, 160, 320)
FACTORS = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2.5, 5)
DEFICITS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
LABELS = ("model_name",)


class SoundMetrics:
    """Metrics of sound, with one observation per completed request."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str) -> Counter:
            return Counter(PREFIX + name, text, LABELS, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(PREFIX + name, text, LABELS, buckets=buckets, registry=registry)

        self._heard = counter("transcription_audio_seconds", "Seconds of sound transcribed.")
        self._windows = counter("transcription_windows", "Windows of sound transcribed.")
        self._fallbacks = counter("transcription_fallbacks", "Windows drawn again at a higher temperature.")
        self._tokens = counter("transcription_tokens", "Tokens of transcripts.")
        self._first_text = histogram(
            "transcription_time_to_first_text_seconds", "Seconds to the first text of a recording.", SECONDS
        )
        self._hearing = histogram(
            "transcription_real_time_factor", "Seconds of work a second of sound transcribed.", FACTORS
        )
        self._spoken = counter("speech_audio_seconds", "Seconds of speech made.")
        self._characters = counter("speech_characters", "Characters spoken.")
        self._first_audio = histogram(
            "speech_time_to_first_audio_seconds", "Seconds to the first sound of a speech.", SECONDS
        )
        self._speaking = histogram("speech_real_time_factor", "Seconds of work a second of speech made.", FACTORS)
        self._deficit = histogram(
            "speech_worst_deficit_seconds", "Seconds by which sound came too late for a listener, at worst.", DEFICITS
        )

    def transcription(self, model: str, stats: TranscriptionStats) -> None:
        self._heard.labels(model).inc(stats.audio_seconds)
        self._windows.labels(model).inc(stats.num_windows)
        self._fallbacks.labels(model).inc(stats.num_fallbacks)
        self._tokens.labels(model).inc(stats.num_tokens)
        self._hearing.labels(model).observe(stats.real_time_factor)
        if stats.time_to_first_text is not None:
            self._first_text.labels(model).observe(stats.time_to_first_text)

    def speech(self, model: str, stats: SpeechStats) -> None:
        self._spoken.labels(model).inc(stats.audio_seconds)
        self._characters.labels(model).inc(stats.num_characters)
        self._first_audio.labels(model).observe(stats.time_to_first_audio)
        self._speaking.labels(model).observe(stats.real_time_factor)
        self._deficit.labels(model).observe(stats.worst_deficit)
