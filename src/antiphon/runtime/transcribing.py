"""`Transcribing`: what the engine for threads offers for sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from antiphon.audio.samples import Floats, RawFormat
from antiphon.errors import AntiphonError, InvalidRequestError
from antiphon.runtime.live import LiveTranscription
from antiphon.runtime.recording import SoundSource, open_recording
from antiphon.runtime.transcript import LiveUpdate, Transcript, TranscriptEvent
from antiphon.runtime.transcription import Transcriber
from antiphon.runtime.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions

MAX_THREADS = 64


class Transcribing:
    """A part of `Engine`. Keyword arguments are the fields of `TranscriptionOptions`."""

    if TYPE_CHECKING:

        def _transcriber(self, model: str | None) -> Transcriber: ...

    def transcribe(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> Transcript:
        """Transcribe a recording: a path, the bytes of a file, an open file, or samples at 16 kHz.

        Options are the fields of `TranscriptionOptions`. `raw` describes sound without a header.
        """
        *_, transcript = self.transcribe_events(source, model=model, raw=raw, **options)
        assert isinstance(transcript, Transcript)
        return transcript

    def transcribe_events(
        self, source: SoundSource, *, model: str | None = None, raw: RawFormat | None = None, **options: Any
    ) -> Iterator[TranscriptEvent]:
        """Transcribe a recording and yield segments as they become final, then the transcript.

        Closing the iterator cancels the work.
        """
        checked = transcription_options(options)
        return self._transcriber(model).run(open_recording(source, raw=raw), checked)

    def transcribe_all(
        self, sources: Sequence[SoundSource], *, model: str | None = None, **options: Any
    ) -> list[Transcript]:
        """Transcribe several recordings together; results are in the order of the sources."""
        if not sources:
            return []
        with ThreadPoolExecutor(min(MAX_THREADS, len(sources)), "antiphon-transcribe") as pool:
            return list(pool.map(lambda source: self.transcribe(source, model=model, **options), sources))

    def listen(
        self,
        on_update: Callable[[LiveUpdate], None] | None = None,
        *,
        model: str | None = None,
        interval: float = DEFAULT_INTERVAL,
        **options: Any,
    ) -> LiveSession:
        """Start a live transcription: push sound as it arrives; `on_update` is called from the session's thread.

        A new hypothesis is made after every `interval` seconds of sound.
        """
        return LiveSession(self._transcriber(model), transcription_options(options), on_update, interval)


class LiveSession:
    """A live transcription. Leaving its context ends it at once."""

    def __init__(
        self,
        transcriber: Transcriber,
        options: TranscriptionOptions,
        on_update: Callable[[LiveUpdate], None] | None,
        interval: float,
    ) -> None:
        self._outcome: Future[Transcript] = Future()
        self._live = LiveTranscription(transcriber, options, on_update or (lambda update: None), self._ended, interval)

    def _ended(self, outcome: Transcript | AntiphonError) -> None:
        if isinstance(outcome, AntiphonError):
            self._outcome.set_exception(outcome)
        else:
            self._outcome.set_result(outcome)

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes. Never blocks."""
        self._live.push(samples_of(samples))

    def finish(self, timeout: float | None = None) -> Transcript:
        """Transcribe what remains and return the whole transcript. Raises the error if the session failed."""
        self._live.finish()
        return self._outcome.result(timeout)

    def close(self) -> None:
        """End the session at once; what has not been transcribed is dropped."""
        self._live.close()

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def samples_of(sound: Floats | bytes) -> Floats:
    """Samples from floats, or from 16-bit little-endian bytes."""
    if isinstance(sound, bytes | bytearray | memoryview):
        if len(sound) % 2:
            raise InvalidRequestError(f"{len(sound)} bytes are not whole 16-bit samples")
        return np.frombuffer(sound, "<i2").astype(np.float32) / 32768.0
    return np.asarray(sound, np.float32)


def transcription_options(options: dict[str, Any]) -> TranscriptionOptions:
    """The options by their names; an unknown one is refused."""
    try:
        return TranscriptionOptions(**options)
    except TypeError as error:
        raise InvalidRequestError(str(error).replace("TranscriptionOptions.__init__() ", "")) from None
