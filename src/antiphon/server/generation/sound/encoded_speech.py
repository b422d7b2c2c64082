"""`EncodedSpeech`: one text, synthesised in the engine and encoded here as the samples arrive."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable

from antiphon.audio.encode import AudioEncoder, AudioFormat
from antiphon.errors import AntiphonError, AudioError, EngineError
from antiphon.runtime.calls.speech import SpeechChunk, SpeechStats
from antiphon.runtime.calls.speech_options import SpeechOptions
from antiphon.runtime.calls.tasks import Speak
from antiphon.runtime.speech.stream import AsyncSynthesis
from antiphon.server.serving.failures import engine_failure, engine_unavailable
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.context import LogFields
from antiphon.server.web.http.errors import SERVER, ApiError, api_error


class EncodedSpeech:
    """Speech of a text that is complete (`is_open=False`) or grows by `append`. Call `prepare`, then `begin`.

    It must be closed, which also cancels it.
    """

    def __init__(
        self, serving: Serving, model: ReadyModel, text: str, options: SpeechOptions, *, is_open: bool = False
    ) -> None:
        self._serving = serving
        self._model = model
        self._call = Speak(uuid.uuid4().hex, model.name, text, options, is_open)
        self._stream: AsyncSynthesis | None = None
        self.stats: SpeechStats | None = None

    async def prepare(self) -> None:
        """Load the models that read the text. Every failure is an `ApiError`."""
        await self._serving.models.acquire_companions(self._model)

    def begin(self) -> None:
        """Send the text to the engine. If the engine rejects it, `parts` raises."""
        try:
            self._stream = self._serving.client.speak(self._call)
        except EngineError as error:
            raise engine_unavailable(self._serving.client) from error

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def append(self, text: str) -> None:
        assert self._stream is not None
        self._stream.append(text)

    def end_text(self) -> None:
        assert self._stream is not None
        self._stream.end_text()

    async def parts(self) -> AsyncGenerator[SpeechChunk]:
        """Yield samples clause by clause, then set `stats`. Every failure is an `ApiError`."""
        assert self._stream is not None
        try:
            async for chunk in self._stream:
                yield chunk
            self.stats = self._stream.stats
            self._serving.metrics.sound.speech(self._model.name, self.stats)
        except EngineError as error:
            raise engine_failure(self._serving.client, error) from error
        except AntiphonError as error:
            raise api_error(error) from error
        finally:
            self.close()

    async def encoded(
        self, format: AudioFormat, on_part: Callable[[SpeechChunk], None] | None = None
    ) -> AsyncGenerator[bytes]:
        """Yield the bytes of a sound file while samples arrive. `on_part` receives each part before its bytes."""
        encoder: AudioEncoder | None = None
        parts = self.parts()
        try:
            async for part in parts:
                if on_part is not None:
                    on_part(part)
                if encoder is None:
                    encoder = await asyncio.to_thread(AudioEncoder, format, part.rate)
                data = await asyncio.to_thread(encoder.push, part.samples)
                if data:
                    yield data
            assert encoder is not None
            last = await asyncio.to_thread(encoder.finish)
            if last:
                yield last
        except AudioError as error:  # the engine made the samples, so this is a server error
            raise ApiError(
                500, f"the speech could not be encoded: {error}", code="engine_error", kind=SERVER
            ) from error
        except AntiphonError as error:
            raise api_error(error) from error
        finally:
            await parts.aclose()


def log_speech(log_fields: LogFields, stats: SpeechStats) -> None:
    log_fields["audio_seconds"] = round(stats.audio_seconds, 3)
    log_fields["real_time_factor"] = round(stats.real_time_factor, 4)
    log_fields["time_to_first_audio"] = round(stats.time_to_first_audio, 4)
