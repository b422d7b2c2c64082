"""`Transcriber`: transcribes recordings through the engine, their windows in parallel or in sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.runtime.calls.port import CallEngine, EnginePort
from antiphon.runtime.calls.transcript import TranscriptEvent
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.transcription.account import TranscriptAccount, record_of
from antiphon.runtime.transcription.language import language_of
from antiphon.runtime.transcription.window.decoding import Recogniser
from antiphon.runtime.transcription.window.job_runner import JobRunner
from antiphon.runtime.transcription.windows import ParallelWindows, SequentialWindows


@dataclass(frozen=True)
class SoundChunks:
    """Chunks of mono float32 sound at 16 kHz, and its total length in seconds if that is known beforehand."""

    pieces: Iterable[Floats]
    seconds: float | None = None


class TranscriptionEngine(CallEngine, Protocol):
    """The part of a front end that calls of transcription use."""

    def transcriber(self, model: str | None) -> Transcriber: ...


class Transcriber:
    """Transcriber of recordings with one loaded model. Safe to share: every call has its own state.

    With `speculates`, the last transcript of a window that grows is the draft of the next.
    """

    def __init__(self, loaded: LoadedModel, port: EnginePort, *, speculates: bool = False) -> None:
        self.recogniser = Recogniser.of(loaded)
        self.port = port
        self.speculates = speculates

    def language(self, options: TranscriptionOptions) -> str | None:
        """Return the code of the language if it is known beforehand, or None if it is to be detected."""
        return language_of(options, self.recogniser.tokens, self.recogniser.loaded.name)

    def run(self, sound: SoundChunks, options: TranscriptionOptions, runner: JobRunner) -> Iterator[TranscriptEvent]:
        """Yield progress as windows become final, in the order of the recording, and at the end the transcript.

        Closing the iterator ends what is still running in the engine; so does `cancel` of the runner.
        """
        account = TranscriptAccount(self.language(options))
        arrived = self.port.clock()
        deadline = None if options.timeout is None else self.port.clock() + options.timeout
        counted = _Counted(sound.pieces)
        in_sequence = options.sequential or not options.voice_activity
        windows = SequentialWindows if in_sequence else ParallelWindows
        run = windows(self.recogniser, options, runner, account, deadline, self.port.detectors)
        try:
            yield from run.events(counted, sound.seconds)
        finally:
            runner.close()
        transcript = account.transcript(counted.seconds, translate=options.translate)
        self.port.record(record_of(transcript.stats, self.recogniser.loaded.name, arrived))
        yield transcript


class _Counted:
    """Chunks of sound whose samples are counted as they are read."""

    def __init__(self, pieces: Iterable[Floats]) -> None:
        self._pieces = pieces
        self.num_samples = 0

    @property
    def seconds(self) -> float:
        return self.num_samples / SPEECH_RATE

    def __iter__(self) -> Iterator[Floats]:
        for piece in self._pieces:
            self.num_samples += len(piece)
            yield piece
