"""Prometheus metrics of voice conversations: durations of a turn's stages, and endings of responses."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from antiphon.runtime.voice.waterfall import Waterfall

PREFIX = "antiphon:"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3, 4, 6, 8, 12, 20, 40)


class VoiceMetrics:
    """Metrics of voice sessions. Stages have the names of the marks that end them (`runtime/voice/waterfall.py`)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sessions = Counter(PREFIX + "realtime_sessions", "Realtime sessions begun.", registry=registry)
        self._open = Gauge(PREFIX + "realtime_sessions_open", "Realtime sessions that are open.", registry=registry)
        self._responses = Counter(
            PREFIX + "realtime_responses", "Responses of realtime sessions, by status.", ("status",), registry=registry
        )
        self._stages = Histogram(
            PREFIX + "voice_turn_stage_seconds",
            "Seconds that a stage of a turn took, from what it waited for to its end.",
            ("stage",),
            buckets=SECONDS,
            registry=registry,
        )
        self._total = Histogram(
            PREFIX + "voice_to_voice_seconds",
            "Seconds from the end of speech to the first sound of the answer.",
            buckets=SECONDS,
            registry=registry,
        )

    def session_opened(self) -> None:
        self._sessions.inc()
        self._open.inc()

    def session_closed(self) -> None:
        self._open.dec()

    def response(self, status: str, waterfall: Waterfall) -> None:
        """Count a response that has ended. Stages that it reached count even if it was interrupted."""
        self._responses.labels(status).inc()
        for stage in waterfall.stages():
            self._stages.labels(stage.name).observe(stage.seconds)
        if waterfall.speech_ended is not None and waterfall.first_sound is not None:
            self._total.observe(waterfall.first_sound - waterfall.speech_ended)
