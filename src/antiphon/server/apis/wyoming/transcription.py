"""`WyomingTranscription`: transcribes sound as it is spoken or as fast as possible; reports voice activity and text."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.tasks import DetectVoice, Listen, Transcribe
from antiphon.runtime.calls.transcript import Transcript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.voice_events import VoiceStarted, VoiceStopped
from antiphon.runtime.transcription.stream import AsyncTranscription, AsyncVoiceActivity
from antiphon.server.apis.wyoming.events import SoundFormat, WantedTranscript, sound_format, timestamp, unexpected
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.apis.wyoming.offers import Offers, nothing_for
from antiphon.server.apis.wyoming.request import Link, beside, limit_time
from antiphon.server.apis.wyoming.sound_input import WyomingSoundInput
from antiphon.server.generation.sound.transcript_answers import log_transcription
from antiphon.server.serving.failures import engine_unavailable
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import invalid
from antiphon.server.web.telemetry.logs import log

AUDIO_START, AUDIO_CHUNK, AUDIO_STOP = "audio-start", "audio-chunk", "audio-stop"
#: Minimum seconds of sound that are sent to the engine at a time.
PIECE_SECONDS = 0.25
#: Maximum seconds of a live session's sound ahead of real time, because the engine holds it.
LEAD_SECONDS = 60.0
#: Minimum bytes of a payload that is converted in a thread.
LARGE_BYTES = 128 << 10


class WyomingTranscription:
    """Transcription of one stream of sound. With `is_live`, text is sent while the person speaks.

    Otherwise the transcript equals that of the same sound sent over HTTP, and text is sent as it becomes final.
    """

    def __init__(self, serving: Serving, link: Link, wanted: WantedTranscript, *, is_live: bool) -> None:
        self._serving = serving
        self._link = link
        self._wanted = wanted
        self._is_live = is_live
        self._input = WyomingSoundInput()
        self._format: SoundFormat | None = None
        self._held: list[Floats] = []
        self._num_held = 0
        self._num_samples = 0
        self._origin = 0  # timestamp of the first event, in milliseconds
        self._has_begun = False
        self._started = time.monotonic()

    async def run(self, context: RequestContext, first: Frame) -> None:
        model = await self._ready(context)
        stream, voice = self._open(model)
        voices = asyncio.create_task(self._report_voice(voice))
        try:
            transcript = await beside(self._feed(first, stream, voice, context), self._report(stream))
            await voices  # the transcript follows its last event
            await self._send_transcript(transcript)
        finally:
            stream.close()
            voice.close()
            voices.cancel()
            await asyncio.gather(voices, return_exceptions=True)
        self._serving.metrics.sound.transcription(model.name, transcript.stats)
        log_transcription(context.log_fields, transcript.stats)

    async def _ready(self, context: RequestContext) -> ReadyModel:
        models, wanted = self._serving.models, self._wanted
        name = wanted.name or Offers.of(self._serving).recogniser_for(wanted.language)
        if name is None:
            raise nothing_for("transcribe")
        model = await models.ready(name, "transcribe")
        context.log_fields["model"] = model.name
        await models.acquire_companions(model)
        return model

    def _open(self, model: ReadyModel) -> tuple[AsyncTranscription, AsyncVoiceActivity]:
        client, number = self._serving.client, uuid.uuid4().hex
        options = TranscriptionOptions(language=self._wanted.language, prompt=", ".join(self._wanted.terms))
        opening = Listen(number, model.name, options) if self._is_live else Transcribe(number, model.name, options)
        try:
            stream = client.transcribe(opening)
            try:
                return stream, client.detect_voice(DetectVoice(f"{number}-voice", self._wanted.min_silence))
            except BaseException:
                stream.close()
                raise
        except EngineError as error:
            raise engine_unavailable(client) from error

    # -- sound --------------------------------------------------------------------------------------------------

    async def _feed(
        self, first: Frame, stream: AsyncTranscription, voice: AsyncVoiceActivity, context: RequestContext
    ) -> None:
        if first.type == AUDIO_START:
            self._format = sound_format(first)
        self._origin = timestamp(first)
        frame = first
        while frame.type != AUDIO_STOP:
            if frame.type == AUDIO_CHUNK:
                await self._take(frame, stream, voice)
            elif frame is not first:
                raise unexpected(frame, "audio-chunk or audio-stop")
            frame = await self._link.receive()
        limit_time(context, self._serving.config.limits.request_seconds)
        self._hold(self._input.finish())
        await self._push(stream, voice)
        stream.finish()
        voice.finish()

    async def _take(self, frame: Frame, stream: AsyncTranscription, voice: AsyncVoiceActivity) -> None:
        self._format = format = sound_format(frame, self._format)
        if len(frame.payload) > LARGE_BYTES:
            samples = await asyncio.to_thread(self._input.push, frame.payload, format)
        else:
            samples = self._input.push(frame.payload, format)
        self._hold(samples)
        if self._num_held >= PIECE_SECONDS * SPEECH_RATE:
            await self._push(stream, voice)

    def _hold(self, samples: Floats) -> None:
        self._held.append(samples)
        self._num_held += len(samples)
        self._num_samples += len(samples)
        limit = self._serving.config.limits.audio_seconds
        if self._num_samples > limit * SPEECH_RATE:
            raise invalid(f"the sound is longer than the {limit:g} s that are taken", code="invalid_audio")

    async def _push(self, stream: AsyncTranscription, voice: AsyncVoiceActivity) -> None:
        if not self._num_held:
            return
        if self._is_live:
            lead = self._num_samples / SPEECH_RATE - (time.monotonic() - self._started) - LEAD_SECONDS
            await asyncio.sleep(max(0.0, lead))
        elif not await stream.room():
            return  # it has failed, which `_report` raises
        samples = np.concatenate(self._held)
        self._held, self._num_held = [], 0
        stream.push(samples)
        voice.push(samples)

    # -- text and voice activity --------------------------------------------------------------------------------

    async def _report(self, stream: AsyncTranscription) -> Transcript:
        async for event in stream:
            if isinstance(event, Transcript):
                return event
            if event.text:
                await self._begin_text()
                await self._link.send(Frame("transcript-chunk", {"text": event.text}))
        raise EngineError("the engine ended a transcription early")

    async def _begin_text(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            language = self._wanted.language
            await self._link.send(Frame("transcript-start", {} if language is None else {"language": language}))

    async def _send_transcript(self, transcript: Transcript) -> None:
        await self._begin_text()
        data = {"text": transcript.text, "language": transcript.language}
        await self._link.send(Frame("transcript", data), Frame("transcript-stop"))

    async def _report_voice(self, voice: AsyncVoiceActivity) -> None:
        """Send voice activity; a failure of the detector is left to the transcription, which needs it too."""
        try:
            async for event in voice:
                if isinstance(event, VoiceStarted | VoiceStopped):
                    name = "voice-started" if isinstance(event, VoiceStarted) else "voice-stopped"
                    moment = self._origin + round(event.seconds * 1000)
                    await self._link.send(Frame(name, {"timestamp": moment}))
        except AntiphonError as error:
            log("voice activity failed", logging.WARNING, cause=str(error))
        except ConnectionError:
            pass  # the connection reports it
