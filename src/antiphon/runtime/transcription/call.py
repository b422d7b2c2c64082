"""`TranscriptionCall`: one recording, given whole or pushed in chunks while it is transcribed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TYPE_CHECKING

from antiphon.audio.samples import Floats
from antiphon.engine.core import describe
from antiphon.engine.request import FinishReason
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.events import PieceRead
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.transcript import TranscriptEvent
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.sound_source import open_sound
from antiphon.runtime.transcription.transcriber import SoundChunks, Transcriber, TranscriptionEngine
from antiphon.runtime.transcription.window.job_runner import CancelledTranscriptionError, JobRunner

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import Transcribe


class TranscriptionCall:
    """A call that emits `TranscriptProgress` and at the end the transcript, or an error.

    `cancel` may come before `run`: `run` looks for a cancellation after it has created its runner, and `cancel` notes
    it before it looks for a runner, so one of the two takes effect.
    """

    id_prefix = "transcription"

    def __init__(self, call_id: str, sink: Sink) -> None:
        self.id = call_id
        self._sink = sink
        self._runner: JobRunner | None = None
        self._is_cancelled = False
        self._pieces: SimpleQueue[Floats | None] = SimpleQueue()

    def begin(self, engine: TranscriptionEngine, request: Transcribe) -> None:
        transcriber = engine.transcriber(request.model)
        sound = self.sent() if request.samples is None else open_sound(request.samples)
        self.run(transcriber, sound, request.options)

    def start(self, transcriber: Transcriber, sound: SoundChunks, options: TranscriptionOptions) -> None:
        """Transcribe in a new thread."""
        arguments = (transcriber, sound, options)
        threading.Thread(target=self.run, args=arguments, name="antiphon-transcribe", daemon=True).start()

    def run(self, transcriber: Transcriber, sound: SoundChunks, options: TranscriptionOptions) -> None:
        """Transcribe in this thread. Every failure is emitted."""
        try:
            for event in self.events(transcriber, sound, options):
                self._sink.put(self.id, event)
        except AntiphonError as error:
            self._sink.put(self.id, error)
        except BaseException as error:  # the caller's source of sound may raise anything
            failure = EngineError(f"transcription {self.id} failed: {describe(error)}")
            failure.__cause__ = error
            self._sink.put(self.id, failure)

    def events(
        self, transcriber: Transcriber, sound: SoundChunks, options: TranscriptionOptions
    ) -> Iterator[TranscriptEvent]:
        """Yield the events, for a caller that reads them in its own thread. Closing the iterator cancels the call."""
        self._runner = JobRunner(transcriber.port)
        self._check_cancelled()
        yield from transcriber.run(self._until_cancelled(sound), options, self._runner)

    def _until_cancelled(self, sound: SoundChunks) -> SoundChunks:
        def pieces() -> Iterator[Floats]:
            for piece in sound.pieces:
                self._check_cancelled()
                yield piece

        return SoundChunks(pieces(), sound.seconds)

    def _check_cancelled(self) -> None:
        if self._is_cancelled:
            raise CancelledTranscriptionError("the transcription was cancelled")

    # -- for any thread -----------------------------------------------------------------------------------------

    def sent(self) -> SoundChunks:
        """Return a recording of the chunks that are pushed. `PieceRead` is emitted when a chunk is used."""

        def pieces() -> Iterator[Floats]:
            while (piece := self._pieces.get()) is not None:
                self._sink.put(self.id, PieceRead())
                yield piece
            self._check_cancelled()

        return SoundChunks(pieces())

    def push(self, samples: Floats) -> None:
        self._pieces.put(samples)

    def finish(self) -> None:
        self._pieces.put(None)

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._is_cancelled = True
        self._pieces.put(None)
        if self._runner is not None:
            self._runner.cancel()
