"""`LiveCall`: live transcription, a settled prefix and a tail that may still change.

While a window of speech is open, it is transcribed again and again as it grows. Words on which two hypotheses in a row
agree are settled, and later hypotheses begin with them. Sound before the open window is not transcribed again.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import FinishReason, Request
from antiphon.errors import EngineError, check_values
from antiphon.runtime.calls.events import Event
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.thread_call import ThreadCall
from antiphon.runtime.calls.transcript import LiveUpdate, Segment
from antiphon.runtime.calls.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.transcription.account import TranscriptAccount
from antiphon.runtime.transcription.listening.settling import CONTEXT_TOKENS, Hypotheses
from antiphon.runtime.transcription.listening.windows import LiveWindows
from antiphon.runtime.transcription.transcriber import Transcriber, TranscriptionEngine
from antiphon.runtime.transcription.window.decoding import Recogniser, WindowJob
from antiphon.runtime.transcription.window.job_runner import JobRunner
from antiphon.runtime.transcription.window.segments import whole_segment

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import Listen


@dataclass(eq=False)
class _Job:
    work: WindowJob
    start: int  # in samples of the stream
    end: int
    is_final: bool


class LiveCall(ThreadCall):
    """A live session in its own thread. Emits `LiveUpdate`s and at its end the transcript, or an error.

    Create it, `prepare` it, then `start` it. Sound may be pushed, and the call cancelled, from its creation on.
    """

    id_prefix = "live"
    _subject = "the live session"
    _recogniser: Recogniser
    _options: TranscriptionOptions
    _runner: JobRunner
    _windows: LiveWindows
    _account: TranscriptAccount
    _hypotheses: Hypotheses

    def __init__(self, call_id: str, sink: Sink) -> None:
        super().__init__(call_id, sink)
        self._prompt: list[int] = []
        self._interval = 0
        self._speculates = False
        self._inbox: SimpleQueue[Request | Floats | None] = SimpleQueue()
        self._is_closed = threading.Event()
        self._seen = 0  # position at which the last hypothesis ended
        self._job: _Job | None = None
        self._context: list[int] = []
        self._has_text = False
        self._busy_seconds = 0.0
        self._job_started = 0.0

    def prepare(
        self, transcriber: Transcriber, options: TranscriptionOptions, interval: float = DEFAULT_INTERVAL
    ) -> None:
        """Load the models; raise the error that rejects the call."""
        check_values((interval > 0, "interval", interval, "above 0 seconds"))
        self._interval = round(interval * SPEECH_RATE)
        self._recogniser = transcriber.recogniser
        # Windows are short, and their bounds are known: a transcript without timestamps settles sooner.
        self._options = replace(options, timestamps=False, sequential=False)
        self._prompt = self._recogniser.prompt_tokens(options)
        self._runner = JobRunner(transcriber.port, self._inbox)
        self._speculates = transcriber.speculates
        self._account = TranscriptAccount(transcriber.language(options))
        self._windows = LiveWindows(transcriber.port.detectors)
        self._hypotheses = Hypotheses(self._recogniser)

    def begin(self, engine: TranscriptionEngine, request: Listen) -> None:
        self.prepare(engine.transcriber(request.model), request.options, request.interval)
        self._start_accepted()

    # -- for any thread -----------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        if self._is_closed.is_set():
            raise EngineError("the live session has ended")
        self._inbox.put(np.asarray(samples, np.float32))

    def finish(self) -> None:
        """Declare the sound complete; the rest is transcribed and the session ends with the transcript."""
        self._inbox.put(None)

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End now; discard sound that has not been transcribed."""
        self._is_closed.set()
        self._inbox.put(None)

    # -- the session's thread -----------------------------------------------------------------------------------

    def _work(self) -> Event:
        try:
            self._serve()
        finally:
            self._runner.close()
            self._is_closed.set()
        seconds = self._windows.track.end / SPEECH_RATE
        return self._account.transcript(seconds, translate=self._options.translate, processing=self._busy_seconds)

    def _serve(self) -> None:
        is_ending = False
        while not self._is_closed.is_set():
            self._start_job(is_ending)
            if is_ending and self._job is None and not self._windows.closed:
                return
            for item in self._received():
                if isinstance(item, Request):
                    work = self._runner.take(item)
                    if work is not None:
                        self._finish_job()
                elif item is None:
                    if not is_ending:
                        is_ending = True
                        self._hear(np.zeros(0, np.float32), final=True)
                elif not is_ending:
                    self._hear(item)

    def _received(self) -> list[Request | Floats | None]:
        """Return all received items, sound joined; wait for the first."""
        items = [self._inbox.get()]
        with suppress(Empty):
            while True:
                items.append(self._inbox.get_nowait())
        joined: list[Request | Floats | None] = []
        for item in items:
            if isinstance(item, np.ndarray) and joined and isinstance(joined[-1], np.ndarray):
                joined[-1] = np.concatenate([joined[-1], item])
            else:
                joined.append(item)
        return joined

    def _hear(self, samples: Floats, *, final: bool = False) -> None:
        in_use = None if self._job is None else self._job.start
        was_no_speech = self._windows.push(samples, in_use, final=final)
        if was_no_speech and self._hypotheses.last and not self._windows.closed and self._job is None:
            self._hypotheses.clear()
            self._update("", "", None)  # retract the tail that was shown

    def _update(self, text: str, tail: str, segment: Segment | None) -> None:
        self._sink.put(self.id, LiveUpdate(text, tail, segment, self._windows.track.end / SPEECH_RATE))

    # -- jobs ---------------------------------------------------------------------------------------------------

    def _start_job(self, is_ending: bool) -> None:
        """Start a job unless one is running: the first closed window, else the open one if enough sound has come."""
        if self._job is not None:
            return
        windows = self._windows
        if windows.closed:
            start, end = windows.closed[0]
            self._submit(start, end, is_final=True)
        elif windows.open_start is not None and not is_ending:
            fresh = windows.track.end - max(self._seen, windows.open_start)
            if fresh >= self._interval:
                self._submit(windows.open_start, windows.track.end, is_final=False)

    def _submit(self, start: int, end: int, *, is_final: bool) -> None:
        options = self._options
        if not is_final:
            options = replace(options, words=False, temperatures=options.temperatures[:1])
        previous = [*self._prompt, *self._context[-CONTEXT_TOKENS:]]
        samples = self._windows.track.samples(start, end)
        known = self._hypotheses
        work = WindowJob(self._recogniser, samples, options, self._account.language, previous, known.settled)
        if self._speculates:
            work.expected = known.last
        self._job, self._seen = _Job(work, start, end, is_final), end
        self._job_started = time.perf_counter()
        self._runner.start(work)

    def _finish_job(self) -> None:
        """Settle the tokens that can be settled, and emit an update."""
        job, self._job = self._job, None
        assert job is not None
        account = self._account
        self._busy_seconds += time.perf_counter() - self._job_started
        account.num_tokens += job.work.num_tokens
        before = self._hypotheses.settled
        tokens = self._hypotheses.tokens_of(job.work, self._options)
        if job.is_final:
            settled = tokens
            self._hypotheses.clear()
        else:
            self._hypotheses.add(tokens, account.language)
            settled = self._hypotheses.settled
        text = self._text(settled)[len(self._text(before)) :]
        tail = self._text(tokens)[len(self._text(settled)) :]
        if tokens:
            account.note_language(job.work)
        if text:
            account.note_text()
        segment = self._close_window(job, tokens) if job.is_final else None
        if not self._has_text:
            text = text.lstrip()
        self._has_text = self._has_text or bool(text)
        self._update(text, tail, segment)

    def _close_window(self, job: _Job, tokens: tuple[int, ...]) -> Segment | None:
        self._windows.closed.pop(0)
        self._account.count_window(job.work)
        if not tokens:
            return None
        voice = self._windows.track.voice_frames(job.start, job.end)
        segment = whole_segment(job.work, job.start / SPEECH_RATE, tokens, voice, self._recogniser.tokenizer)
        self._account.segments.append(segment)
        self._context = [*self._context, *tokens][-CONTEXT_TOKENS:]
        return segment

    def _text(self, tokens: tuple[int, ...]) -> str:
        return self._recogniser.tokenizer.decode(tokens)
