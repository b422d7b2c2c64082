"""`WyomingSynthesis`: speaks a text, given whole or while it is written."""

from __future__ import annotations

from antiphon.audio.pcm import to_s16
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.server.apis.wyoming.events import WantedVoice, text, unexpected, wanted_voice
from antiphon.server.apis.wyoming.frames import Frame
from antiphon.server.apis.wyoming.offers import Offers, nothing_for
from antiphon.server.apis.wyoming.request import Link, beside, limit_time
from antiphon.server.generation.sound.encoded_speech import EncodedSpeech, log_speech
from antiphon.server.generation.sound.voices import resolve_voice
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import RequestContext
from antiphon.server.web.http.errors import invalid

SYNTHESIZE = "synthesize"
START, CHUNK, STOP = "synthesize-start", "synthesize-chunk", "synthesize-stop"
#: Seconds of sound in an `audio-chunk`.
CHUNK_SECONDS = 0.1
#: Bytes per sample.
WIDTH = 2


class WyomingSynthesis:
    """Synthesis of one text as one stream of sound: `audio-start`, chunks of 16-bit samples, `audio-stop`."""

    def __init__(self, serving: Serving, link: Link) -> None:
        self._serving = serving
        self._link = link
        self._num_characters = 0
        self._num_samples = 0
        self._rate = 0

    async def run_whole(self, context: RequestContext, frame: Frame) -> None:
        """Speak the text of a `synthesize`."""
        limit_time(context, self._serving.config.limits.request_seconds)
        whole = self._checked(frame)
        if not whole.strip():
            raise invalid("synthesize has no text to speak", "text")
        call = await self._open(context, wanted_voice(frame), whole, is_open=False)
        try:
            call.begin()
            await self._report(call, context)
        finally:
            call.close()

    async def run_streamed(self, context: RequestContext, frame: Frame) -> None:
        """Speak the chunks from `synthesize-start` to `synthesize-stop`; without text, no sound is sent."""
        call = await self._open(context, wanted_voice(frame), "", is_open=True)
        beginning: str | None = ""
        while beginning is not None and not beginning.strip():
            beginning = await self._next_text()
        if beginning is not None:
            try:
                call.begin()
                call.append(beginning)
                await beside(self._feed(call, context), self._report(call, context))
            finally:
                call.close()
        await self._link.send(Frame("synthesize-stopped"))

    async def _open(self, context: RequestContext, voice: WantedVoice, whole: str, *, is_open: bool) -> EncodedSpeech:
        name, asked = Offers.of(self._serving).speaker_for(voice)
        if name is None:
            raise nothing_for("synthesize")
        model = await self._serving.models.ready(name, "synthesize")
        context.log_fields["model"] = model.name
        options = SpeechOptions(voice=resolve_voice(self._serving, model, asked, "voice"))
        call = EncodedSpeech(self._serving, model, whole, options, is_open=is_open)
        await call.prepare()
        return call

    async def _feed(self, call: EncodedSpeech, context: RequestContext) -> None:
        while (piece := await self._next_text()) is not None:
            call.append(piece)
        limit_time(context, self._serving.config.limits.request_seconds)
        call.end_text()

    async def _next_text(self) -> str | None:
        """Return the text of the next chunk, or None at the end."""
        while (frame := await self._link.receive()).type != STOP:
            if frame.type == CHUNK:
                return self._checked(frame)
            if frame.type != SYNTHESIZE:  # the whole text again, for servers without streaming
                raise unexpected(frame, "synthesize-chunk or synthesize-stop")
        return None

    def _checked(self, frame: Frame) -> str:
        limit = self._serving.config.limits.speech_characters
        piece = text(frame, "text", limit) or ""
        self._num_characters += len(piece)
        if self._num_characters > limit:
            raise invalid(f"the text has more than the {limit:,} characters that are allowed", "text")
        return piece

    async def _report(self, call: EncodedSpeech, context: RequestContext) -> None:
        parts = call.parts()
        try:
            async for part in parts:
                await self._link.send(*self._frames(part))
        finally:
            await parts.aclose()
        if self._rate:
            await self._link.send(Frame("audio-stop", {"timestamp": self._milliseconds}))
        if call.stats is not None:
            log_speech(context.log_fields, call.stats)

    def _frames(self, part: SpeechChunk) -> list[Frame]:
        frames = []
        if not self._rate:
            self._rate = part.rate
            frames.append(Frame("audio-start", {**self._format, "timestamp": 0}))
        data = to_s16(part.samples).tobytes()
        step = round(CHUNK_SECONDS * part.rate) * WIDTH
        for start in range(0, len(data), step):
            payload = data[start : start + step]
            frames.append(Frame("audio-chunk", {**self._format, "timestamp": self._milliseconds}, payload))
            self._num_samples += len(payload) // WIDTH
        return frames

    @property
    def _format(self) -> dict[str, int]:
        return {"rate": self._rate, "width": WIDTH, "channels": 1}

    @property
    def _milliseconds(self) -> int:
        return self._num_samples * 1000 // self._rate
