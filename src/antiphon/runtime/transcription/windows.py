"""The windows of one recording through the engine: `ParallelWindows`, or `SequentialWindows`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import SpeechSpan, Window
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.calls.transcript import Segment, TranscriptEvent
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.transcription.account import TranscriptAccount
from antiphon.runtime.transcription.detection.voice_activity import (
    SpeechWindow,
    VoiceFrames,
    VoiceReader,
    speech_windows,
)
from antiphon.runtime.transcription.window.decoding import Attempt, Recogniser, WindowJob
from antiphon.runtime.transcription.window.job_runner import JobRunner
from antiphon.runtime.transcription.window.segments import Stretch, WindowTimeline, segments_of, stretches

#: Maximum windows of one recording in the engine at once (their sound and states are in memory), and the maximum before
#: the first text.
MAX_WINDOWS = 12
FIRST_WINDOWS = 4
#: Seconds of speech after the end of a window's transcript from which the rest of the window is transcribed again.
LEFTOVER_SPEECH = 1.0
#: Segments in which the probability of speech stays below this are discarded.
MIN_VOICE = 0.2
#: Maximum temperature at which a window's text becomes the context of the next window in sequence.
MAX_CONTEXT_TEMPERATURE = 0.5


@dataclass
class _Windows:
    """Base of both orders: the recogniser, the options, and the account of one recording."""

    recogniser: Recogniser
    options: TranscriptionOptions
    runner: JobRunner
    account: TranscriptAccount
    deadline: float | None
    detectors: Detectors

    def job(self, samples: Floats, previous: list[int]) -> WindowJob:
        return WindowJob(
            self.recogniser, samples, self.options, self.account.language, previous, deadline=self.deadline
        )

    def spoken(self, job: WindowJob, window: SpeechWindow | None) -> list[Stretch]:
        """Return the stretches of a window that hold speech; an empty list for a silent window.

        Without `window`, voice activity is unknown, and all stretches count.
        """
        if job.best.is_silence(self.options):
            return []
        found = stretches(job.best, self.recogniser.tokens, job.seconds)
        if window is None:
            return found
        return [stretch for stretch in found if window.loudest_voice(stretch.start, stretch.end) >= MIN_VOICE]


@dataclass(eq=False)
class _QueuedWindow:
    """A window in the order of the recording. If a transcript stops early, further jobs transcribe the rest."""

    window: SpeechWindow
    segments: list[Segment] = field(default_factory=list)
    is_done: bool = False


_Jobs = dict[WindowJob, tuple[_QueuedWindow, SpeechWindow]]


class ParallelWindows(_Windows):
    """Windows cut at silences, many at once. They may end in any order; events keep that of the recording."""

    def events(self, chunks: Iterable[Floats], total: float | None) -> Iterator[TranscriptEvent]:
        windows = speech_windows(chunks, self.recogniser.window_seconds, self.detectors)
        prompt = self.recogniser.prompt_tokens(self.options)
        queue: list[_QueuedWindow] = []
        jobs: _Jobs = {}
        is_read = False
        while not is_read or queue:
            # Until the first window has given the language, each would have to detect it; and the first text should
            # not wait for a dozen windows.
            limit = MAX_WINDOWS if self.account.num_windows else FIRST_WINDOWS
            limit = limit if self.account.language is not None else 1
            while not is_read and len(queue) < limit:
                window = next(windows, None)
                if window is None:
                    is_read = True
                    break
                queued = _QueuedWindow(window)
                queue.append(queued)
                self._start(jobs, queued, window, prompt)
            if not jobs:
                continue
            job = self.runner.wait()
            queued, window = jobs.pop(job)
            self.account.take(job)
            rest = self._take(job, queued, window)
            if rest is not None:
                self._start(jobs, queued, rest, prompt)
            else:
                queued.is_done = True
            while queue and queue[0].is_done:
                done = queue.pop(0)
                yield self.account.progress(done.segments, done.window.window.end, total)

    def _start(self, jobs: _Jobs, queued: _QueuedWindow, window: SpeechWindow, prompt: list[int]) -> None:
        job = self.job(window.samples, prompt)
        if self.options.timestamps and len(window.window.spans) > 1:
            job.needs_words = partial(self._crosses_a_seam, window.window.bounds, job.seconds)
        jobs[job] = (queued, window)
        self.runner.start(job)

    def _crosses_a_seam(self, bounds: tuple[float, ...], seconds: float, attempt: Attempt) -> bool:
        """Return whether a stretch has to be divided among spans, which takes the times of its words."""
        return any(stretch.crosses(bounds) for stretch in stretches(attempt, self.recogniser.tokens, seconds))

    def _take(self, job: WindowJob, queued: _QueuedWindow, window: SpeechWindow) -> SpeechWindow | None:
        """Keep the window's segments; return the rest of the window if the model stopped before the speech did."""
        found = self.spoken(job, window)
        rest, limit = None, None
        if self.options.timestamps and job.best.text.strip() and not job.best.is_silence(self.options):
            closed = [stretch for stretch in found if stretch.is_closed]
            if closed and not job.best.is_complete:
                found = closed  # the token limit cut off the last stretch
            end = found[-1].end if found else job.seconds
            if 0 < end < job.seconds and window.speech_after(end + 0.2) >= LEFTOVER_SPEECH:
                rest, limit = window.from_second(end), end
        timeline = WindowTimeline(window.window, window.voice_frames, limit)
        queued.segments += segments_of(job, found, timeline, self.recogniser.tokenizer)
        return rest


class SequentialWindows(_Windows):
    """Windows one after the other, with the text before as context. Each begins where the last one's text ends."""

    def events(self, chunks: Iterable[Floats], total: float | None) -> Iterator[TranscriptEvent]:
        length = self.recogniser.model.cross_tokens * SPEECH_RATE // 50
        source = iter(chunks)
        buffer: Floats = np.zeros(0, np.float32)
        context = prompt = self.recogniser.prompt_tokens(self.options)
        begin, is_read = 0, False  # samples before the buffer
        while True:
            while not is_read and len(buffer) < length:
                piece = next(source, None)
                is_read = piece is None
                buffer = buffer if piece is None else np.concatenate([buffer, piece])
            if not len(buffer):
                return
            if self.options.voice_activity:
                window = next(speech_windows([buffer[:length]], length / SPEECH_RATE, self.detectors), None)
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

            timeline = WindowTimeline(
                Window((SpeechSpan(offset, offset + job.seconds),)), self._voice(samples), advance / SPEECH_RATE
            )
            segments = segments_of(job, found, timeline, self.recogniser.tokenizer)
            if job.best.temperature > MAX_CONTEXT_TEMPERATURE:
                context = list(prompt)
            else:
                spoken = [token for stretch in found for token in stretch.tokens]
                context = [*context, *spoken][-self.recogniser.max_prompt_tokens :]
            buffer, begin = buffer[advance:], begin + advance
            yield self.account.progress(segments, begin / SPEECH_RATE, total)

    def _voice(self, samples: Floats) -> VoiceFrames | None:
        if not (self.options.words and self.options.voice_activity):
            return None
        reader = VoiceReader(self.detectors)
        return VoiceFrames(reader.push(samples, final=True), reader.frame_seconds)

    def _advance(self, job: WindowJob, found: list[Stretch], is_last: bool) -> int:
        """Return the samples after which the next window begins: the end of the last complete segment."""
        whole = len(job.samples)
        if is_last and (job.best.is_complete or not found):
            return whole
        closed = [stretch for stretch in found if stretch.is_closed]
        if not closed or closed[-1] is found[-1]:
            return whole
        return max(1, min(whole, round(closed[-1].end * SPEECH_RATE)))
