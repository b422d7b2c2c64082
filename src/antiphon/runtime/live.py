"""`LiveTranscription`: speech as it is spoken: a prefix that is settled, and a tail that may still change.

Voice activity opens a window where somebody begins to speak and closes it at a silence. While it is open it is
transcribed again and again as it grows; what two hypotheses in a row agree on is settled, and later ones begin from
it. Nothing before the open window is ever looked at again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from queue import Empty, SimpleQueue

import numpy as np

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.audio.segments import SegmentOptions, SpeechTracker
from antiphon.engine.core import describe
from antiphon.engine.request import FinishReason, Request
from antiphon.errors import AntiphonError, EngineError, InvalidRequestError
from antiphon.runtime.transcript import LiveUpdate, Segment, Transcript, TranscriptionStats, Word
from antiphon.runtime.transcription import Transcriber
from antiphon.runtime.transcription_options import DEFAULT_INTERVAL, TranscriptionOptions
from antiphon.runtime.voice_activity import VoiceReader
from antiphon.runtime.window_decoding import WindowJob
from antiphon.runtime.word_timestamps import split_words

SPEECH = SegmentOptions(threshold=0.5, release=0.3, min_speech=0.2, min_silence=1.2)
#: Sound before the voice was noticed that belongs to the window, and after it fell silent.
PADDING_SECONDS = 0.3
#: An open window longer than this is closed at its quietest moment of late.
MAX_OPEN_SECONDS = 24.0
QUIET_SEARCH_SECONDS = 2.0
#: Sound kept while nobody speaks, so that the beginning of a word is not lost.
IDLE_SECONDS = 2.0
#: Words at the end of a hypothesis that are never settled by it: its sound may have ended inside them.
UNSURE_WORDS = 3
#: Tokens of the text before a window that are given to it as context.
CONTEXT_TOKENS = 64


class _Stop:
    """The end of the input."""


@dataclass(eq=False)
class _Job:
    work: WindowJob
    start: int  # samples of the stream
    end: int
    is_final: bool


class LiveTranscription:
    """A session with a thread of its own. `push` never waits; `on_update` is called from the session's thread."""

    def __init__(
        self,
        transcriber: Transcriber,
        options: TranscriptionOptions,
        on_update: Callable[[LiveUpdate], None],
        on_end: Callable[[Transcript | AntiphonError], None],
        interval: float = DEFAULT_INTERVAL,
    ) -> None:
        if interval <= 0:
            raise InvalidRequestError(f"interval is {interval}; it must be above 0 seconds")
        self._transcriber = transcriber
        tokens = transcriber.recogniser.tokens
        self._language = "en" if not tokens.is_multilingual else None
        if options.language is not None:
            self._language = tokens.known_language(options.language)
        # Windows are short, and where they begin and end is known: a transcript without timestamps settles sooner.
        self._options = replace(options, timestamps=False, sequential=False)
        prompt = options.prompt.strip()
        self._prompt = transcriber.recogniser.tokenizer.encode(" " + prompt, parse_special=False) if prompt else []
        self._interval = round(interval * SPEECH_RATE)
        self._on_update, self._on_end = on_update, on_end
        self._inbox: SimpleQueue[Request | Floats | _Stop] = SimpleQueue()
        self._closed = threading.Event()
        self._voice = VoiceReader()
        self._tracker = SpeechTracker(self._voice.frame_seconds, SPEECH)
        self._samples: Floats = np.zeros(0, np.float32)
        self._probabilities: list[float] = []
        self._first_frame = 0  # of the probabilities that are kept
        self._origin = 0  # samples before the buffer
        self._open: int | None = None  # where the open window begins
        self._closing: list[tuple[int, int]] = []  # windows that have ended and are not transcribed yet
        self._seen = 0  # where the last hypothesis ended
        self._job: _Job | None = None
        self._owners: dict[str, _Job] = {}
        self._last: tuple[int, ...] = ()  # tokens of the last hypothesis
        self._settled: tuple[int, ...] = ()
        self._segments: list[Segment] = []
        self._context: list[int] = []
        self._has_text = False
        self._started = time.perf_counter()
        self._first_text: float | None = None
        self._busy = 0.0
        self._job_started = 0.0
        self._num_windows = self._num_fallbacks = self._num_tokens = 0
        self._speech = 0.0
        self._language_probability = 1.0
        self._thread = threading.Thread(target=self._run, name="antiphon-live", daemon=True)
        self._thread.start()

    # -- for any thread -----------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        """Sound at 16 kHz, mono, as it comes."""
        if self._closed.is_set():
            raise EngineError("the live session has ended")
        self._inbox.put(np.asarray(samples, np.float32))

    def finish(self) -> None:
        """No more sound will come; the rest is transcribed and the session ends with the transcript."""
        self._inbox.put(_Stop())

    def close(self) -> None:
        """End at once, without the rest."""
        self._closed.set()
        self._inbox.put(_Stop())

    # -- the session's thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._serve()
            outcome: Transcript | AntiphonError = self._transcript()
        except AntiphonError as error:
            outcome = error
        except Exception as error:
            outcome = EngineError(f"the live session failed: {describe(error)}")
        finally:
            for request_id in list(self._owners):
                self._transcriber.port.abort(request_id, FinishReason.DISCONNECTED)
        self._closed.set()
        self._on_end(outcome)

    def _serve(self) -> None:
        is_ending = False
        while not self._closed.is_set():
            self._start_job(is_ending)
            if is_ending and self._job is None and not self._closing:
                return
            for item in self._received():
                if isinstance(item, Request):
                    self._take(item)
                elif isinstance(item, _Stop):
                    if not is_ending:
                        is_ending = True
                        self._hear(np.zeros(0, np.float32), final=True)
                elif not is_ending:
                    self._hear(item)

    def _received(self) -> list[Request | Floats | _Stop]:
        """Everything that has come, sound joined; waits for the first."""
        items = [self._inbox.get()]
        while True:
            try:
                items.append(self._inbox.get_nowait())
            except Empty:
                break
        joined: list[Request | Floats | _Stop] = []
        for item in items:
            if isinstance(item, np.ndarray) and joined and isinstance(joined[-1], np.ndarray):
                joined[-1] = np.concatenate([joined[-1], item])
            else:
                joined.append(item)
        return joined

    @property
    def _end(self) -> int:
        return self._origin + len(self._samples)

    def _hear(self, samples: Floats, *, final: bool = False) -> None:
        """Take sound in: find where speech begins and ends, and let go of what nobody needs any more."""
        self._samples = np.concatenate([self._samples, samples])
        voice = self._voice.push(samples, final=final)
        self._probabilities.extend(voice.tolist())
        ended = self._tracker.push(voice)
        if final:
            ended += self._tracker.finish()
        padding = round(PADDING_SECONDS * SPEECH_RATE)
        for segment in ended:
            start = self._open if self._open is not None else round(segment.start * SPEECH_RATE) - padding
            end = min(self._end, round(segment.end * SPEECH_RATE) + padding)
            self._close_window(max(start, self._origin), end)
            self._open = None
        since = self._tracker.speaking_since
        if since is None and self._open is not None:
            self._drop_window()
        if since is not None and self._open is None:
            after = self._closing[-1][1] if self._closing else self._origin
            self._open = max(self._origin, after, round(since * SPEECH_RATE) - padding)
        if self._open is not None and self._end - self._open > MAX_OPEN_SECONDS * SPEECH_RATE:
            cut = self._quietest()
            self._close_window(self._open, cut)
            self._open = cut
        self._forget()

    def _close_window(self, start: int, end: int) -> None:
        if end > start:
            self._closing.append((start, end))

    def _drop_window(self) -> None:
        """The open window was no speech after all; a tail that was shown for it is taken back."""
        self._open = None
        if self._last and not self._closing and self._job is None:
            self._last = self._settled = ()
            self._on_update(LiveUpdate("", "", None, self._end / SPEECH_RATE))

    def _quietest(self) -> int:
        """The least voiced moment of the last seconds."""
        frame = round(self._voice.frame_seconds * SPEECH_RATE)
        count = round(QUIET_SEARCH_SECONDS * SPEECH_RATE / frame)
        late = self._probabilities[-count:]
        return (self._first_frame + len(self._probabilities) - len(late) + int(np.argmin(late))) * frame

    def _forget(self) -> None:
        needed = [start for start, _ in self._closing]
        needed += [self._open] if self._open is not None else []
        needed += [self._job.start] if self._job is not None else []
        keep = min(needed, default=self._end - round(IDLE_SECONDS * SPEECH_RATE))
        drop = keep - self._origin
        if drop > SPEECH_RATE:
            self._samples, self._origin = self._samples[drop:].copy(), keep
            frame = round(self._voice.frame_seconds * SPEECH_RATE)
            old = max(0, keep // frame - self._first_frame)
            del self._probabilities[:old]
            self._first_frame += old

    # -- jobs ---------------------------------------------------------------------------------------------------

    def _start_job(self, is_ending: bool) -> None:
        """One hypothesis at a time: windows that have closed first, else the open one if enough has come."""
        if self._job is not None:
            return
        if self._closing:
            start, end = self._closing[0]
            self._submit(_Job(self._work(start, end), start, end, True))
        elif self._open is not None and not is_ending:
            fresh = self._end - max(self._seen, self._open)
            if fresh >= self._interval:
                self._submit(_Job(self._work(self._open, self._end), self._open, self._end, False))

    def _work(self, start: int, end: int) -> WindowJob:
        samples = self._samples[start - self._origin : end - self._origin]
        options = self._options
        if (start, end) not in self._closing:
            options = replace(options, words=False, temperatures=options.temperatures[:1])
        recogniser = self._transcriber.recogniser
        previous = [*self._prompt, *self._context[-CONTEXT_TOKENS:]]
        return WindowJob(recogniser, samples, options, self._language, previous, self._settled)

    def _submit(self, job: _Job) -> None:
        self._job, self._seen = job, job.end
        self._job_started = time.perf_counter()
        self._add(job, job.work.start())

    def _add(self, job: _Job, requests: list[Request]) -> None:
        for request in requests:
            request.on_end = self._inbox.put
            self._owners[request.id] = job
        if requests:
            self._transcriber.port.add(requests).result()

    def _take(self, request: Request) -> None:
        job = self._owners.pop(request.id, None)
        if job is None:
            return
        if request.finish_reason not in (FinishReason.STOP, FinishReason.LENGTH):
            raise EngineError(f"transcription ended by {request.finish_reason}: {request.error or 'no result'}")
        self._add(job, job.work.advance(request))
        if job.work.is_done:
            self._busy += time.perf_counter() - self._job_started
            self._job = None
            self._num_tokens += job.work.num_tokens
            self._tell(job)

    def _tell(self, job: _Job) -> None:
        """Settle what can be and tell the reader."""
        best = job.work.best
        is_silence = best.is_silence(self._options) and not self._settled
        tokens = () if is_silence else tuple(t for t in best.tokens if t < self._transcriber.recogniser.tokens.end)
        settled = tokens if job.is_final else self._agreed(tokens)
        text = self._text(settled)[len(self._text(self._settled)) :]
        tail = self._text(tokens)[len(self._text(settled)) :]
        if self._language is None and tokens:
            self._language, self._language_probability = best.language, best.language_probability
        if text and self._first_text is None:
            self._first_text = time.perf_counter() - self._started
        segment = None
        if job.is_final:
            self._closing.pop(0)
            self._num_windows += 1
            self._num_fallbacks += len(job.work.attempts) - 1
            self._speech += job.work.seconds
            if tokens:
                segment = self._segment(job, tokens)
                self._segments.append(segment)
                self._context = [*self._context, *tokens][-CONTEXT_TOKENS:]
            self._last = self._settled = ()
        else:
            self._last, self._settled = tokens, settled
        if not self._has_text:
            text = text.lstrip()
        self._has_text = self._has_text or bool(text)
        self._on_update(LiveUpdate(text, tail, segment, self._end / SPEECH_RATE))

    def _agreed(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The words that this hypothesis and the last one share, and at least what was settled before."""
        begins = self._word_starts(self._last)
        last = self._last[: begins[-UNSURE_WORDS] if len(begins) >= UNSURE_WORDS else 0]
        count = 0
        for before, now in zip(last, tokens, strict=False):
            if before != now:
                break
            count += 1
        # The word that the common part ends in may go on.
        whole = max((start for start in self._word_starts(tokens) if start <= count), default=0)
        return tokens[: max(whole, len(self._settled))]

    def _word_starts(self, tokens: tuple[int, ...]) -> list[int]:
        words = split_words(tokens, self._transcriber.recogniser.tokenizer, self._language or "en")
        return list(accumulate((count for _, count in words[:-1]), initial=0)) if words else []

    def _text(self, tokens: tuple[int, ...]) -> str:
        return self._transcriber.recogniser.tokenizer.decode(tokens)

    def _segment(self, job: _Job, tokens: tuple[int, ...]) -> Segment:
        start, end, best = job.start / SPEECH_RATE, job.end / SPEECH_RATE, job.work.best
        words = tuple(Word(w.text, start + w.start, start + w.end, w.probability) for w in job.work.words)
        return Segment(
            start, end, self._text(tokens), tokens, best.temperature, best.avg_logprob, best.compression_ratio,
            best.no_speech_prob, start, words,
        )  # fmt: skip

    def _transcript(self) -> Transcript:
        stats = TranscriptionStats(
            self._end / SPEECH_RATE, self._speech, self._busy, self._first_text, self._num_windows,
            self._num_fallbacks, self._num_tokens,
        )  # fmt: skip
        return Transcript(
            self._language or "en",
            self._language_probability,
            self._end / SPEECH_RATE,
            tuple(self._segments),
            "translate" if self._options.translate else "transcribe",
            stats,
        )
