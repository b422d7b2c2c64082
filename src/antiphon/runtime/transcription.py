"""`Transcriber`: recordings through the engine, their windows in parallel or one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import FinishReason, Request
from antiphon.engine.telemetry import TranscriptRecord
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.runtime.loading import LoadedModel
from antiphon.runtime.requests import new_id
from antiphon.runtime.transcript import (
    Segment,
    Transcript,
    TranscriptEvent,
    TranscriptionStats,
    TranscriptProgress,
    joined_text,
)
from antiphon.runtime.transcription_options import TranscriptionOptions
from antiphon.runtime.voice_activity import SpeechWindow, speech_windows
from antiphon.runtime.window_decoding import Recogniser, WindowJob
from antiphon.runtime.window_segments import Stretch, segments_of, stretches

#: Windows of one recording that are in the engine at once; their sound and states are in memory.
MAX_WINDOWS = 12
FIRST_WINDOWS = 4
#: Speech after the end of a window's transcript that makes the rest of the window be transcribed again.
LEFTOVER_SPEECH = 1.0
#: A segment in which the voice activity never reaches this has no speaker.
MIN_VOICE = 0.2
#: In sequence, a window drawn at a higher temperature is not given to the next one as its context.
MAX_CONTEXT_TEMPERATURE = 0.5


@dataclass(frozen=True)
class Chunks:
    """A recording as mono float32 at 16 kHz in pieces, with its length where that is known beforehand."""

    pieces: Iterable[Floats]
    seconds: float | None = None


@dataclass(frozen=True)
class EnginePort:
    """What a transcription needs of an engine."""

    add: Callable[[list[Request]], Future[None]]
    abort: Callable[[str, FinishReason], None]
    clock: Callable[[], float]
    record: Callable[[TranscriptRecord], None] = lambda record: None


class CancelledTranscriptionError(EngineError):
    """The reader of a transcription has gone."""


class JobRunner:
    """Hands the jobs' requests in and takes them back, in the thread that owns the jobs."""

    def __init__(self, port: EnginePort) -> None:
        self._port = port
        self._ended: SimpleQueue[Request | None] = SimpleQueue()
        self._owners: dict[str, WindowJob] = {}

    def start(self, job: WindowJob) -> None:
        self._submit(job, job.start())

    def _submit(self, job: WindowJob, requests: list[Request]) -> None:
        if not requests:
            return
        for request in requests:
            request.on_end = self._ended.put
            self._owners[request.id] = job
        try:
            self._port.add(requests).result()
        except BaseException:
            for request in requests:
                self._owners.pop(request.id, None)
            raise

    def wait(self) -> WindowJob:
        """The next job that is done. Raises the cause if a request failed."""
        while True:
            request = self._ended.get()
            if request is None:
                raise CancelledTranscriptionError("the transcription was cancelled")
            job = self._owners.pop(request.id, None)
            if job is None:
                continue
            if request.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
                raise EngineError(f"transcription ended by {request.finish_reason}: {request.error or 'no result'}")
            self._submit(job, job.advance(request))
            if job.is_done:
                return job

    def cancel(self) -> None:
        """From any thread: have `wait` raise."""
        self._ended.put(None)

    def close(self) -> None:
        """End whatever is still running."""
        for request_id in list(self._owners):
            self._port.abort(request_id, FinishReason.DISCONNECTED)
        self._owners.clear()


@dataclass
class _Account:
    """What a transcription has found and cost so far."""

    started: float
    segments: list[Segment] = field(default_factory=list)
    language: str | None = None
    language_probability: float = 1.0
    speech_seconds: float = 0.0
    first_text: float | None = None
    num_windows: int = 0
    num_fallbacks: int = 0
    num_tokens: int = 0

    def take(self, job: WindowJob) -> None:
        self.num_windows += 1
        self.num_fallbacks += len(job.attempts) - 1
        self.num_tokens += job.num_tokens
        self.speech_seconds += job.seconds
        if self.language is None:
            self.language = job.best.language
            self.language_probability = job.best.language_probability

    def progress(self, segments: list[Segment], done: float, total: float | None) -> TranscriptProgress:
        before = joined_text(self.segments)
        self.segments += segments
        if segments and self.first_text is None:
            self.first_text = time.perf_counter() - self.started
        return TranscriptProgress(tuple(segments), joined_text(self.segments)[len(before) :], done, total)


class Transcriber:
    """Transcribes recordings with one resident model. Safe to share: every call has its own state."""

    def __init__(self, loaded: LoadedModel, port: EnginePort) -> None:
        self.recogniser = Recogniser.of(loaded)
        self.port = port

    def run(
        self, recording: Chunks, options: TranscriptionOptions, runner: JobRunner | None = None
    ) -> Iterator[TranscriptEvent]:
        """Progress as windows become final, in the order of the recording, and at the end the transcript.

        Closing the iterator ends what is still running in the engine; so does `cancel` of the runner.
        """
        tokens = self.recogniser.tokens
        if options.translate and not tokens.is_multilingual:
            raise InvalidRequestError(f"model {self.recogniser.loaded.name!r} knows only English: it cannot translate")
        language = None if options.language is None else tokens.known_language(options.language)
        if not tokens.is_multilingual:
            language = "en"
        account = _Account(time.perf_counter(), language=language)
        runner = runner or JobRunner(self.port)
        arrived = self.port.clock()
        deadline = None if options.timeout is None else self.port.clock() + options.timeout
        counted = _Counted(recording.pieces)
        follows = options.sequential or not options.voice_activity
        run = _Sequence if follows else _Parallel
        try:
            yield from run(self.recogniser, options, runner, account, deadline).events(counted, recording.seconds)
        finally:
            runner.close()
        transcript = self._transcript(account, counted.seconds, options)
        self.port.record(self._record(transcript, arrived))
        yield transcript

    def _record(self, transcript: Transcript, arrived: float) -> TranscriptRecord:
        stats = transcript.stats
        return TranscriptRecord(
            id=new_id().replace("request", "transcript"),
            model=self.recogniser.loaded.name,
            arrived=arrived,
            audio_seconds=stats.audio_seconds,
            processing_seconds=stats.processing_seconds,
            real_time_factor=stats.real_time_factor,
            time_to_first_text=stats.time_to_first_text,
            windows=stats.num_windows,
            fallbacks=stats.num_fallbacks,
            output_tokens=stats.num_tokens,
        )

    def _transcript(self, account: _Account, seconds: float, options: TranscriptionOptions) -> Transcript:
        stats = TranscriptionStats(
            audio_seconds=seconds,
            speech_seconds=account.speech_seconds,
            processing_seconds=time.perf_counter() - account.started,
            time_to_first_text=account.first_text,
            num_windows=account.num_windows,
            num_fallbacks=account.num_fallbacks,
            num_tokens=account.num_tokens,
        )
        return Transcript(
            language=account.language or "en",
            language_probability=account.language_probability,
            duration=seconds,
            segments=tuple(account.segments),
            task="translate" if options.translate else "transcribe",
            stats=stats,
        )


class _Counted:
    """Chunks of sound, counted as they go by."""

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


@dataclass
class _Run:
    recogniser: Recogniser
    options: TranscriptionOptions
    runner: JobRunner
    account: _Account
    deadline: float | None

    def prompt_tokens(self) -> list[int]:
        text = self.options.prompt.strip()
        return self.recogniser.tokenizer.encode(" " + text, parse_special=False) if text else []

    def job(self, samples: Floats, previous: list[int]) -> WindowJob:
        return WindowJob(
            self.recogniser, samples, self.options, self.account.language, previous, deadline=self.deadline
        )

    def spoken(self, job: WindowJob, window: SpeechWindow | None) -> list[Stretch]:
        """The stretches of a window that somebody said: none if it is silence, none where nobody speaks."""
        if job.best.is_silence(self.options):
            return []
        found = stretches(job.best, self.recogniser.tokens, job.seconds)
        if window is None:
            return found
        return [stretch for stretch in found if window.loudest_voice(stretch.start, stretch.end) >= MIN_VOICE]


@dataclass(eq=False)
class _Place:
    """A window's place in the order of the recording; what is left over of it follows as further jobs."""

    window: SpeechWindow
    segments: list[Segment] = field(default_factory=list)
    is_done: bool = False


class _Parallel(_Run):
    """Windows cut at silences, many at once. Their order in the engine is its own business; ours is kept here."""

    def events(self, chunks: Iterable[Floats], total: float | None) -> Iterator[TranscriptEvent]:
        windows = speech_windows(chunks, self.recogniser.window_seconds)
        prompt = self.prompt_tokens()
        places: list[_Place] = []
        jobs: dict[WindowJob, tuple[_Place, SpeechWindow]] = {}
        is_read = False
        while not is_read or places:
            # Until a window has told the language, the others would each have to find it; and the first text should
            # not wait for a dozen windows.
            limit = MAX_WINDOWS if self.account.num_windows else FIRST_WINDOWS
            limit = limit if self.account.language is not None else 1
            while not is_read and len(places) < limit:
                window = next(windows, None)
                if window is None:
                    is_read = True
                    break
                place = _Place(window)
                places.append(place)
                self._start(jobs, place, window, prompt)
            if not jobs:
                continue
            job = self.runner.wait()
            place, window = jobs.pop(job)
            self.account.take(job)
            rest = self._take(job, place, window)
            if rest is not None:
                self._start(jobs, place, rest, prompt)
            else:
                place.is_done = True
            while places and places[0].is_done:
                done = places.pop(0)
                yield self.account.progress(done.segments, done.window.window.end, total)

    def _start(
        self, jobs: dict[WindowJob, tuple[_Place, SpeechWindow]], place: _Place, window: SpeechWindow, prompt: list[int]
    ) -> None:
        job = self.job(window.samples, prompt)
        jobs[job] = (place, window)
        self.runner.start(job)

    def _take(self, job: WindowJob, place: _Place, window: SpeechWindow) -> SpeechWindow | None:
        """Keep the window's segments; what is left of it where the model stopped before the speech did."""
        found = self.spoken(job, window)
        rest = None
        if self.options.timestamps and job.best.text.strip() and not job.best.is_silence(self.options):
            closed = [stretch for stretch in found if stretch.is_closed]
            if closed and not job.best.is_complete:
                found = closed  # the length ran out in the middle of the last one
            end = found[-1].end if found else job.seconds
            if 0 < end < job.seconds and window.speech_after(end + 0.2) >= LEFTOVER_SPEECH:
                rest = window.from_second(end)

        def file_time(seconds: float, ending: bool) -> float:
            return window.window.file_time(seconds, ending=ending)

        place.segments += segments_of(job, found, file_time, window.window.start, self.recogniser.tokenizer)
        return rest


class _Sequence(_Run):
    """Windows one after the other, each given the text before it. The next begins where the last one's text ends."""

    def events(self, chunks: Iterable[Floats], total: float | None) -> Iterator[TranscriptEvent]:
        length = self.recogniser.model.cross_tokens * SPEECH_RATE // 50
        source = iter(chunks)
        buffer: Floats = np.zeros(0, np.float32)
        context = prompt = self.prompt_tokens()
        begin, is_read = 0, False  # samples before the buffer
        while True:
            while not is_read and len(buffer) < length:
                piece = next(source, None)
                is_read = piece is None
                buffer = buffer if piece is None else np.concatenate([buffer, piece])
            if not len(buffer):
                return
            if self.options.voice_activity:
                window = next(speech_windows([buffer[:length]], length / SPEECH_RATE), None)
                skipped = len(buffer[:length]) if window is None else int(window.window.start * SPEECH_RATE)
                if skipped:
                    buffer, begin = buffer[skipped:], begin + skipped
                    continue
            samples = buffer[:length]
            offset = begin / SPEECH_RATE
            job = self.job(samples, context)
            self.runner.start(job)
            self.runner.wait()
            self.account.take(job)
            found = self.spoken(job, None)
            advance = self._advance(job, found, is_read and len(buffer) <= length)
            found = [stretch for stretch in found if stretch.start * SPEECH_RATE < advance]

            def file_time(seconds: float, ending: bool, offset: float = offset) -> float:
                return offset + seconds

            segments = segments_of(job, found, file_time, offset, self.recogniser.tokenizer)
            if job.best.temperature > MAX_CONTEXT_TEMPERATURE:
                context = list(prompt)
            else:
                spoken = [token for stretch in found for token in stretch.tokens]
                context = [*context, *spoken][-self.recogniser.max_prompt_tokens :]
            buffer, begin = buffer[advance:], begin + advance
            yield self.account.progress(segments, begin / SPEECH_RATE, total)

    def _advance(self, job: WindowJob, found: list[Stretch], is_last: bool) -> int:
        """Samples after which the next window begins: after the last segment that is whole."""
        whole = len(job.samples)
        if is_last and (job.best.is_complete or not found):
            return whole
        closed = [stretch for stretch in found if stretch.is_closed]
        if not closed or closed[-1] is found[-1]:
            return whole
        return max(1, min(whole, round(closed[-1].end * SPEECH_RATE)))
