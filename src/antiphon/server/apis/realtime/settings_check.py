"""`SettingsCheck`: whether this server can do what an update of a session, or one response, asks for."""

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
    """What a session's models are asked before its settings change. Both raise `ApiError`."""

    async def have_detectors(self, turns: TurnSettings) -> None:
        """Load what turn detection needs, and keep it until the session ends."""
        ...

    async def check_voice(self, settings: VoiceSettings) -> None:
        """Raise if the speech model is there and has no such voice."""
        ...


class SettingsCheck:
    """Models and voices are looked at when they are asked for, not when they are first used."""

    def __init__(self, models: ServedModels, session: SessionModels) -> None:
        self._models = models
        self._session = session

    async def update(self, before: SessionConfig, after: SessionConfig) -> None:
        """Raise `WireError` for what changed and cannot be done. A detector may have to be loaded first."""
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
        """Raise `WireError` for another voice that the speech model does not have."""
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
