"""`UploadTranscription`: one file, decoded here in chunks and transcribed in the engine."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import IO, Any, TypeVar

from antiphon.audio.decode import DecodeStream, decode_stream
from antiphon.audio.samples import DecodeLimits, Floats, RawFormat
from antiphon.errors import AntiphonError, AudioError, EngineError
from antiphon.runtime.calls.tasks import Transcribe
from antiphon.runtime.calls.transcript import Transcript, TranscriptProgress
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.stream import AsyncTranscription
from antiphon.server.serving.failures import engine_failure, engine_unavailable
from antiphon.server.serving.models import ReadyModel
from antiphon.server.serving.serving import Serving
from antiphon.server.web.http.errors import SERVER, ApiError, api_error, invalid

Result = TypeVar("Result")
#: Seconds of audio sent to the engine at a time.
PIECE_SECONDS = 30.0


def open_upload(file: IO[bytes], serving: Serving, raw: RawFormat | None = None) -> DecodeStream:
    """Start decoding an uploaded recording within the server's limits. Blocks."""
    limits = serving.config.limits
    return decode_stream(
        file,  # type: ignore[arg-type]
        chunk_seconds=PIECE_SECONDS,
        limits=DecodeLimits(max_bytes=limits.audio_bytes, max_seconds=limits.audio_seconds),
        raw=raw,
    )


class UploadTranscription:
    """Transcription of a file, which it closes. `events` can be read once; closing the call cancels it."""

    def __init__(
        self,
        serving: Serving,
        model: ReadyModel,
        file: IO[bytes],
        options: TranscriptionOptions,
        param: str = "file",
        raw: RawFormat | None = None,
    ) -> None:
        self._serving = serving
        self._model = model
        self._file = file
        self._param = param
        self._raw = raw
        self._call = Transcribe(uuid.uuid4().hex, model.name, options)
        self._stream: AsyncTranscription | None = None
        self._working: asyncio.Future[Any] | None = None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    async def events(self) -> AsyncGenerator[TranscriptProgress | Transcript]:
        """Yield progress with segments as they become final, then the transcript. Every failure is an `ApiError`."""
        client = self._serving.client
        feeding: asyncio.Task[None] | None = None
        try:
            decoder = await self._in_thread(self._open)
            first = await self._in_thread(next, decoder, None)
            if self._call.options.voice_activity:
                await self._serving.models.acquire_companions(self._model)
            stream = self._stream = client.transcribe(self._call)
            feeding = asyncio.create_task(self._feed(stream, decoder, first))
            async for event in stream:
                if isinstance(event, Transcript):
                    self._serving.metrics.sound.transcription(self._model.name, event.stats)
                    yield event
                    return
                if isinstance(event, TranscriptProgress):
                    yield event
            await feeding  # raises the error that ended the stream
            raise ApiError(500, "the engine ended a transcription early", code="engine_error", kind=SERVER)
        except EngineError as error:
            raise engine_unavailable(client) if self._stream is None else engine_failure(client, error) from error
        except AudioError as error:
            raise invalid(str(error), self._param, "invalid_audio") from error
        except AntiphonError as error:
            raise api_error(error) from error
        finally:
            self.close()
            if feeding is not None:
                feeding.cancel()
                await asyncio.gather(feeding, return_exceptions=True)
            self._close_file()

    async def wait(self, take: Callable[[TranscriptProgress], None] = lambda _: None) -> Transcript:
        """Return the complete transcript; `take` receives the progress until then."""
        async for event in self.events():
            if isinstance(event, Transcript):
                return event
            take(event)
        raise AssertionError

    async def _feed(self, stream: AsyncTranscription, decoder: DecodeStream, piece: Floats | None) -> None:
        """Decode at the speed at which the engine accepts samples. Invalid audio ends the transcription."""
        try:
            while piece is not None and await stream.room():
                stream.push(piece)
                piece = await self._in_thread(next, decoder, None)
            stream.finish()
        except AntiphonError:
            stream.close()
            raise

    async def _in_thread(self, work: Callable[..., Result], *arguments: object) -> Result:
        """Run `work` in a thread. Cancelling the caller does not cancel the thread."""
        working = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
        self._working = working
        await asyncio.wait([working])
        return working.result()

    def _close_file(self) -> None:
        """Close the file once no thread reads it."""
        if self._working is None:
            self._file.close()
        else:
            self._working.add_done_callback(lambda _: self._file.close())

    def _open(self) -> DecodeStream:
        return open_upload(self._file, self._serving, self._raw)
