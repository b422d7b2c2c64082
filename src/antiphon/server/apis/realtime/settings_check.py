"""`SettingsCheck`: checks that the server can serve an update of a session, or a single response."""

from __future__ import annotations

from typing import Protocol

from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.server.apis.realtime.model_names import check_model
from antiphon.server.apis.realtime.session_config import SessionConfig
from antiphon.server.apis.realtime.wire_errors import WireError
from antiphon.server.serving.models import ServedModels
from antiphon.server.web.http.errors import ApiError


class SessionModels(Protocol):
    """The part of a session's models that checks its settings. Both methods raise `ApiError`."""

    async def have_detectors(self, turns: TurnSettings) -> None:
        """Load the detectors for turn detection, which stay loaded until the session ends."""
        ...

    async def check_voice(self, settings: VoiceSettings) -> None:
        """Raise if a speech model is available and lacks the voice."""
        ...


class SettingsCheck:
    """Check of models and voices when a client requests them, rather than on first use."""

    def __init__(self, models: ServedModels, session: SessionModels) -> None:
        self._models = models
        self._session = session

    async def update(self, before: SessionConfig, after: SessionConfig) -> None:
        """Raise `WireError` if a changed setting cannot be served. May load a turn detector first."""
        if after.model != before.model and not after.is_transcription:
            check_model(self._models, after.model, "generate", "session.model")
        if after.transcription_model != before.transcription_model:
            param = "session.audio.input.transcription.model"
            check_model(self._models, after.transcription_model, "transcribe", param)
        wanted, held = after.settings(), before.settings()
        await self.voice(held, wanted, "session")
        if wanted.turns.detection is TurnDetection.SEMANTIC_VAD and held.turns.detection is not wanted.turns.detection:
            await self._detectors(wanted.turns)

    async def voice(self, before: VoiceSettings, after: VoiceSettings, prefix: str) -> None:
        """Raise `WireError` if the voice changed to one that the speech model lacks."""
        if after.voice == before.voice or not after.answer or after.modality is not Modality.AUDIO:
            return
        try:
            await self._session.check_voice(after)
        except ApiError as error:
            raise WireError.of(error, f"{prefix}.audio.output.voice") from error

    async def _detectors(self, turns: TurnSettings) -> None:
        try:
            await self._session.have_detectors(turns)
        except ApiError as error:
            message = f"semantic_vad is not available: {error.message}"
            raise WireError(message, "session.audio.input.turn_detection", error.code, error.kind) from error
