"""`TurnJobs`: the transcription of turns: hypotheses during speech, a guess at a pause, and closed windows.

One job runs at a time. A window whose text is final goes first, then a guess; either aborts a running hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from antiphon.audio.samples import SPEECH_RATE
from antiphon.engine.request import Priority, Request
from antiphon.errors import AntiphonError, EngineError, ModelNotFoundError
from antiphon.runtime.calls.hearing import HearingEvent, TurnFailed, TurnGuess, TurnMarks, TurnText, TurnTranscript
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.transcription.detection.voice_activity import VoiceTrack
from antiphon.runtime.transcription.listening.settling import Hypotheses
from antiphon.runtime.transcription.transcriber import Transcriber
from antiphon.runtime.transcription.window.decoding import WindowJob
from antiphon.runtime.transcription.window.job_runner import JobRunner
from antiphon.runtime.transcription.window.segments import whole_segment
from antiphon.runtime.transcription.windows import MIN_VOICE
from antiphon.runtime.voice.turn_detection import PAUSE, SAMPLES_PER_MS
from antiphon.runtime.voice.turns import Guess, JobKind, Outcome, SpeechTurn, TurnJob

#: Maximum seconds of an open window, which is then closed at the quietest moment of its last seconds.
MAX_OPEN_SECONDS = 24.0
QUIET_SEARCH_SECONDS = 2.0
#: Maximum samples of silence before and after speech that are transcribed with it; more may become words that nobody
#: said.
MAX_SILENCE = 400 * SAMPLES_PER_MS


class TurnJobs:
    """Jobs of a `HearingCall`, for its thread. Ended requests come to `inbox`; `take` continues their job."""

    def __init__(
        self,
        transcriber: Transcriber,
        options: HearingOptions,
        track: VoiceTrack,
        inbox: SimpleQueue[Any],
        emit: Callable[[HearingEvent], None],
        clock: Callable[[], float],
    ) -> None:
        self._transcriber = transcriber
        self._recogniser = transcriber.recogniser
        self._track = track
        self._emit = emit
        self._clock = clock
        self._runner = JobRunner(transcriber.port, inbox)
        self._interval = round(options.interval * SPEECH_RATE)
        self._backoff = options.backoff
        self._next_hypothesis = 0.0  # time of the clock
        self._turns: list[SpeechTurn] = []
        self._job: TurnJob | None = None
        self._makes_hypotheses = options.hypotheses
        self._is_held = False
        self.configure(options.transcription)

    def configure(self, options: TranscriptionOptions) -> None:
        """Use these options from the next job on. Raise InvalidRequestError if the model cannot follow them."""
        self._language = self._transcriber.language(options)
        # Windows are short, and their bounds are known: a transcript without timestamps settles sooner.
        self._options = replace(options, timestamps=False, sequential=False)
        self._prompt = self._recogniser.prompt_tokens(options)

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held

    @property
    def max_open(self) -> int:
        """Maximum samples of an open window."""
        return round(min(MAX_OPEN_SECONDS, 0.8 * self._recogniser.window_seconds) * SPEECH_RATE)

    @property
    def is_idle(self) -> bool:
        """Whether every turn is transcribed."""
        return not self._turns

    def first_needed(self, otherwise: int) -> int:
        """Return the position from which a turn needs sound, or `otherwise` if no turn does."""
        return min((turn.first_needed() for turn in self._turns), default=otherwise)

    def close(self) -> None:
        self._runner.close()

    # -- turns --------------------------------------------------------------------------------------------------

    def open(self, number: int, start: int, window_start: int) -> SpeechTurn:
        """Open a turn. Sound before its first window is silence."""
        first = max(window_start, self._track.origin)
        turn = SpeechTurn(number, start, Hypotheses(self._recogniser), first, first)
        self._turns.append(turn)
        return turn

    def cut(self, turn: SpeechTurn, end: int, start: int) -> None:
        """Close the turn's open window at `end`; the next begins at `start`."""
        turn.closed.append((turn.window_start, end))
        turn.window_start = turn.seen = start

    def pause(self, turn: SpeechTurn, end: int) -> None:
        """Request a guess at the transcript: the turn may have ended."""
        turn.guess = Guess(end)

    def resume(self, turn: SpeechTurn) -> None:
        """Discard the guess: speech resumed."""
        if turn.guess is not None and self._job is not None and self._job.turn is turn:
            self._abort(JobKind.GUESS)
        turn.guess = None

    def end(self, turn: SpeechTurn, end: int, sound_end: int, marks: TurnMarks) -> None:
        """End the turn. Its last window is transcribed, unless the guess covers it."""
        turn.end, turn.marks = end, marks
        if turn.error is not None or (turn.guess is not None and turn.guess.end == end):
            self._complete(turn)
        else:
            self.resume(turn)
            self.cut(turn, sound_end, sound_end)

    def drop(self, turn: SpeechTurn) -> None:
        """Discard a turn that was not speech, or was cleared."""
        if self._job is not None and self._job.turn is turn:
            self._abort(self._job.kind)
        self._turns.remove(turn)

    def _complete(self, turn: SpeechTurn) -> None:
        """Emit the transcript or error of a turn that has ended, if all of it is transcribed."""
        if turn.end is None or turn.marks is None:
            return
        if turn.error is not None:
            self._turns.remove(turn)
            self._emit(TurnFailed(turn.number, type(turn.error).__name__, str(turn.error)))
            return
        if turn.closed or (turn.guess is not None and turn.guess.outcome is None):
            return
        if turn.guess is not None and turn.guess.outcome is not None:
            turn.take(turn.guess.outcome)
        self._turns.remove(turn)
        language = turn.language or self._language or "en"
        seconds = (turn.end - turn.start) / SPEECH_RATE
        self._emit(TurnTranscript(turn.number, turn.text(), language, tuple(turn.segments), seconds, turn.marks))

    # -- jobs ---------------------------------------------------------------------------------------------------

    def advance(self, speaking: SpeechTurn | None) -> None:
        """Begin the next job, if any. `speaking` is the turn that is being spoken; None at a pause."""
        while self._job is None or self._job.kind is JobKind.HYPOTHESIS:
            turn = next((turn for turn in self._turns if turn.is_awaited), None)
            if turn is None:
                break
            self._abort(JobKind.HYPOTHESIS)
            if turn.closed:
                self._begin(JobKind.WINDOW, turn, *turn.closed[0])
            elif turn.guess is not None:
                self._begin(JobKind.GUESS, turn, turn.window_start, turn.guess.end + PAUSE)
        if speaking is not None and self.seconds_to_hypothesis(speaking) == 0:
            self._begin(JobKind.HYPOTHESIS, speaking, speaking.window_start, self._track.end)

    def seconds_to_hypothesis(self, speaking: SpeechTurn | None) -> float | None:
        """Return the seconds until `advance` begins a hypothesis.

        Return None if a job has to end, more sound has to come or a hold has to be lifted first.
        """
        if self._job is not None or speaking is None or not self._makes_hypotheses or self._is_held:
            return None
        if self._track.end - max(speaking.seen, speaking.window_start) < self._interval:
            return None
        return max(0.0, self._next_hypothesis - self._clock())

    def _begin(self, kind: JobKind, turn: SpeechTurn, start: int, end: int) -> None:
        end = min(end, self._track.end)
        now = self._clock()
        turn.seen = max(turn.seen, end)
        spoken = self._track.voiced(start, end, MIN_VOICE)
        if spoken is None:
            if kind is not JobKind.HYPOTHESIS:
                self._done(kind, turn, Outcome(None, None, now, now))
            return
        start, end = max(start, spoken[0] - MAX_SILENCE), min(end, spoken[1] + MAX_SILENCE)
        options, port = self._options, self._transcriber.port
        if kind is JobKind.HYPOTHESIS:
            options = replace(options, words=False, temperatures=options.temperatures[:1])
        else:
            options = replace(options, priority=min(options.priority, Priority.HIGH))
        deadline = None if options.timeout is None else port.clock() + options.timeout
        settled = turn.hypotheses.settled
        language = self._language or (turn.language if settled or turn.segments else None)
        previous = [*self._prompt, *turn.context()]
        samples = self._track.samples(start, end)
        # What was settled with less sound may be wrong: a final transcript is made anew from all of its sound.
        given = settled if kind is JobKind.HYPOTHESIS else ()
        work = WindowJob(self._recogniser, samples, options, language, previous, given, deadline, is_brief=True)
        if self._transcriber.speculates:
            work.expected = turn.hypotheses.last
        self._job = TurnJob(kind, turn, start, work, now)
        try:
            self._runner.start(work)
        except (EngineError, ModelNotFoundError):  # the engine or the model is closed
            raise
        except AntiphonError as error:
            self._failed(error)

    def _abort(self, kind: JobKind) -> None:
        """Abort the running job if it is of this kind."""
        if self._job is not None and self._job.kind is kind:
            job, self._job = self._job, None
            self._runner.abort(job.work)
            self._count_hypothesis(job)

    def take(self, request: Request) -> None:
        """Continue the job of a request that has ended."""
        try:
            work = self._runner.take(request)
        except (EngineError, ModelNotFoundError) as error:
            self._failed(error)
            return
        if work is not None and self._job is not None and self._job.work is work:
            self._finish_job()

    def _failed(self, error: AntiphonError) -> None:
        """End the running job, which failed. The turn fails only if its final transcript was being made."""
        job, self._job = self._job, None
        assert job is not None
        self._runner.abort(job.work)
        turn = job.turn
        if job.kind is JobKind.HYPOTHESIS:
            self._count_hypothesis(job)
        elif job.kind is JobKind.GUESS and turn.end is None:
            turn.guess = None
        else:
            turn.error, turn.guess = error, None
            turn.closed.clear()
            self._complete(turn)

    def _finish_job(self) -> None:
        job, self._job = self._job, None
        assert job is not None
        turn, tokenizer = job.turn, self._recogniser.tokenizer
        tokens = turn.hypotheses.tokens_of(job.work, self._options)
        language = job.work.best.language if tokens else None
        if job.kind is JobKind.HYPOTHESIS:
            self._count_hypothesis(job)
            turn.language = language or turn.language
            turn.hypotheses.add(tokens, language)
            self._emit_text(turn)
            return
        segment = None
        if tokens:
            voice = self._track.voice_frames(job.start, job.start + len(job.work.samples))
            segment = whole_segment(job.work, job.start / SPEECH_RATE, tokens, voice, tokenizer)
        self._done(job.kind, turn, Outcome(segment, language, job.started, self._clock()))

    def _done(self, kind: JobKind, turn: SpeechTurn, outcome: Outcome) -> None:
        if kind is JobKind.WINDOW:
            turn.closed.pop(0)
            turn.take(outcome)
            if turn.end is None:
                self._emit_text(turn)
        else:
            assert turn.guess is not None
            turn.guess.outcome = outcome
            if turn.end is None:
                self._emit(TurnGuess(turn.number, turn.text(outcome), turn.guess.end // SAMPLES_PER_MS))
                if outcome.segment is not None:  # serves as a hypothesis if the turn goes on
                    turn.hypotheses.add(outcome.segment.tokens, outcome.language)
        self._complete(turn)

    def _count_hypothesis(self, job: TurnJob) -> None:
        if job.kind is JobKind.HYPOTHESIS:
            now = self._clock()
            job.turn.num_hypotheses += 1
            job.turn.hypothesis_seconds += now - job.started
            self._next_hypothesis = now + self._backoff * (now - job.started)

    def _emit_text(self, turn: SpeechTurn) -> None:
        decode = self._recogniser.tokenizer.decode
        before = turn.text()
        settled = before + decode(turn.hypotheses.settled)
        whole = before + decode(turn.hypotheses.last)
        turn.is_named = True
        start = settled.lstrip()
        self._emit(TurnText(turn.number, start, whole[len(settled) :] if start else whole.lstrip()))
