"""Transcriptions and live sessions behind a socket: commands in, what they tell out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

import msgspec
import numpy as np

from antiphon.audio.samples import Floats
from antiphon.errors import AntiphonError
from antiphon.runtime.live import LiveTranscription
from antiphon.runtime.messages import (
    Accepted,
    Hear,
    Heard,
    Listen,
    LivePart,
    Refused,
    StopListening,
    Transcribe,
    Transcribed,
    TranscriptPart,
)
from antiphon.runtime.recording import open_recording
from antiphon.runtime.transcript import Transcript
from antiphon.runtime.transcription import CancelledTranscriptionError, Chunks, JobRunner, Transcriber

MAX_TRANSCRIPTIONS = 64


@dataclass(eq=False)
class _Running:
    """A transcription that waits for a thread or has one. Whoever aborts it says so first and cancels then."""

    runner: JobRunner | None = None
    is_aborted: bool = False
    #: Sound of one that is fed, None at its end.
    fed: SimpleQueue[bytes | None] = field(default_factory=SimpleQueue)

    def abort(self) -> None:
        self.is_aborted = True
        self.fed.put(None)
        if self.runner is not None:
            self.runner.cancel()


class ServedTranscriptions:
    """Takes commands without waiting; `send` may be called from any thread."""

    def __init__(
        self,
        transcriber: Callable[[str | None], Transcriber],
        send: Callable[[msgspec.Struct], None],
        kind_and_message: Callable[[BaseException], tuple[str, str]],
    ) -> None:
        self._transcriber = transcriber
        self._send = send
        self._kind_and_message = kind_and_message
        self._threads = ThreadPoolExecutor(MAX_TRANSCRIPTIONS, "antiphon-transcribe")
        self._running: dict[str, _Running] = {}
        self._sessions: dict[str, LiveTranscription] = {}

    def take(self, command: Transcribe | Listen | Hear | StopListening) -> None:
        match command:
            case Transcribe():
                running = self._running[command.id] = _Running()
                self._threads.submit(self._transcribe, command, running)
            case Listen():
                self._threads.submit(self._listen, command)
            case Hear():
                self._hear(command)
            case StopListening():
                session = self._sessions.get(command.id)
                if session is not None:
                    session.finish()
                elif command.id in self._running:
                    self._running[command.id].fed.put(None)

    def abort(self, call_id: str) -> bool:
        """End a transcription or a session; False if there is none of that id."""
        running, session = self._running.get(call_id), self._sessions.get(call_id)
        if running is not None:
            running.abort()
        if session is not None:
            session.close()
        return running is not None or session is not None

    def _transcribe(self, command: Transcribe, running: _Running) -> None:
        try:
            transcriber = self._transcriber(command.model)
            running.runner = JobRunner(transcriber.port)
            if running.is_aborted:
                raise CancelledTranscriptionError("the transcription was cancelled")
            recording = self._fed(command.id, running) if command.is_fed else open_recording(floats(command.samples))
            for event in transcriber.run(recording, command.options, running.runner):
                if isinstance(event, Transcript):
                    self._send(Transcribed(command.id, event))
                else:
                    self._send(TranscriptPart(command.id, event))
        except BaseException as error:
            self._send(Refused(command.id, *self._kind_and_message(error)))
        finally:
            self._running.pop(command.id, None)

    def _fed(self, call_id: str, running: _Running) -> Chunks:
        def pieces() -> Iterator[Floats]:
            while (samples := running.fed.get()) is not None:
                self._send(Heard(call_id))
                yield floats(samples)
            if running.is_aborted:
                raise CancelledTranscriptionError("the transcription was cancelled")

        return Chunks(pieces())

    def _listen(self, command: Listen) -> None:
        def ended(outcome: Transcript | AntiphonError) -> None:
            self._sessions.pop(command.id, None)
            if isinstance(outcome, Transcript):
                self._send(Transcribed(command.id, outcome))
            else:
                self._send(Refused(command.id, *self._kind_and_message(outcome)))

        try:
            session = LiveTranscription(
                self._transcriber(command.model),
                command.options,
                lambda update: self._send(LivePart(command.id, update)),
                ended,
                command.interval,
            )
        except BaseException as error:
            self._send(Refused(command.id, *self._kind_and_message(error)))
            return
        self._sessions[command.id] = session
        self._send(Accepted(command.id))

    def _hear(self, command: Hear) -> None:
        running = self._running.get(command.id)
        if running is not None:
            running.fed.put(command.samples)
            return
        session = self._sessions.get(command.id)
        if session is None:
            return  # it has ended, and its end was told
        with suppress(AntiphonError):  # it is ending
            session.push(floats(command.samples))


def floats(samples: bytes) -> Floats:
    """Samples from float32 bytes in native order."""
    return np.frombuffer(samples[: len(samples) // 4 * 4], np.float32)
