"""`ServedVoice`: the services of a voice session, provided by the models of a server."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import Priority
from antiphon.errors import AntiphonError, EngineError
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.tasks import Hear, Speak, Transcribe
from antiphon.runtime.calls.transcript import Transcript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.speech.stream import AsyncSynthesis
from antiphon.runtime.voice.hearing_stream import AsyncHearing
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.services import Answer, HeardText, Hearing, StreamingSynthesis
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.server.apis.realtime.chat_answer import open_answer, prefill
from antiphon.server.apis.realtime.leases import Leases, ModelLease, as_ours
from antiphon.server.generation.sound.voices import resolve_voice
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import ApiError
from antiphon.server.web.telemetry.logs import log


class ServedVoice:
    """Services of one session; models are loaded on use and stay loaded while it uses them. Must be closed."""

    def __init__(self, serving: Serving, session_id: str) -> None:
        self._serving = serving
        self._leases = Leases(serving, session_id)

    def close(self) -> None:
        self._leases.close()

    async def have_detectors(self, turns: TurnSettings) -> None:
        """Load the detectors for turn detection, which stay loaded until the session ends. Raises `ApiError`.

        While the engine restarts, a failure is only logged: the hearing that opens afterwards loads the detectors.
        """
        try:
            for name in _detectors(turns):
                await self._leases.hold_detector(name)
        except ApiError as error:
            if self._serving.client.state is EngineState.READY:
                raise
            log("a detector was not loaded", model=name, cause=error.message)

    async def check_voice(self, settings: VoiceSettings) -> None:
        """Raise `ApiError` if the speech model lacks the voice. Without a speech model, responses report the error."""
        try:
            lease = await self._leases.take(settings.speech_model, "synthesize", ())
        except AntiphonError:
            return
        try:
            resolve_voice(self._serving, lease.model, settings.voice, "voice")
        finally:
            lease.close()

    async def hear(self, options: HearingOptions, model: str | None) -> Hearing:
        lease = await self._leases.take(model, "transcribe", _detectors(options.turns))
        try:
            call = Hear(uuid.uuid4().hex, lease.model.name, options)
            return LeasedHearing(self._serving.client.hear(call), lease)
        except BaseException:
            lease.close()
            raise

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> Answer:
        lease = await self._leases.take(settings.model, "generate")
        return await open_answer(self._serving, items, settings, lease)

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        lease = await self._leases.take(settings.model, "generate")
        await prefill(self._serving, items, settings, lease)

    async def speak(self, settings: VoiceSettings) -> StreamingSynthesis:
        lease = await self._leases.take(settings.speech_model, "synthesize", ())
        try:
            with as_ours():
                voice = resolve_voice(self._serving, lease.model, settings.voice, "voice")
            options = SpeechOptions(voice=voice, speed=settings.speed, paced=True, priority=Priority.HIGH)
            call = Speak(uuid.uuid4().hex, lease.model.name, "", options, is_open=True)
            return LeasedSynthesis(self._serving, self._serving.client.speak(call), lease)
        except BaseException:
            lease.close()
            raise

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        lease = await self._leases.take(model, "transcribe", () if options.voice_activity else None)
        stream = None
        try:
            call = Transcribe(uuid.uuid4().hex, lease.model.name, options, samples)
            stream = self._serving.client.transcribe(call)
            async for event in stream:
                if isinstance(event, Transcript):
                    self._serving.metrics.sound.transcription(lease.model.name, event.stats)
                    return HeardText(event.text, event.language, len(samples) / SPEECH_RATE)
            raise EngineError("the engine ended a transcription early")
        finally:
            if stream is not None:
                stream.close()
            lease.close()


class LeasedHearing:
    """A hearing that releases its model when it is closed."""

    def __init__(self, hearing: AsyncHearing, lease: ModelLease) -> None:
        self._lease = lease
        self._hearing = hearing
        self.push = hearing.push
        self.commit = hearing.commit
        self.clear = hearing.clear
        self.configure = hearing.configure
        self.set_min_speech = hearing.set_min_speech
        self.hold_hypotheses = hearing.hold_hypotheses
        self.rest = hearing.rest

    async def __anext__(self) -> HearingEvent:
        return await self._hearing.__anext__()

    def close(self) -> None:
        self._hearing.close()
        self._lease.close()


class LeasedSynthesis:
    """A synthesis that releases its model when it is closed."""

    def __init__(self, serving: Serving, synthesis: AsyncSynthesis, lease: ModelLease) -> None:
        self._serving = serving
        self._synthesis = synthesis
        self._lease = lease

    async def __anext__(self) -> SpeechChunk:
        try:
            return await self._synthesis.__anext__()
        except StopAsyncIteration:
            self._serving.metrics.sound.speech(self._lease.model.name, self._synthesis.stats)
            self.close()
            raise

    def append(self, text: str) -> None:
        self._synthesis.append(text)

    def end_text(self) -> None:
        self._synthesis.end_text()

    def close(self) -> None:
        self._synthesis.close()
        self._lease.close()


def _detectors(turns: TurnSettings) -> tuple[str, ...]:
    """Return the detectors for turn detection that are needed besides the model's own."""
    return (END_OF_TURN,) if turns.detection is TurnDetection.SEMANTIC_VAD else ()
