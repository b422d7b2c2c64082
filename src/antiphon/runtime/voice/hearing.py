"""`HearingCall`: sound in, turns of speech and their transcripts out. One call hears one person or microphone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import numpy as np

from antiphon.audio.room import RoomLevel
from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.engine.request import FinishReason, Request
from antiphon.errors import AntiphonError, EngineError
from antiphon.models.base.companions import END_OF_TURN
from antiphon.runtime.calls import hearing as events
from antiphon.runtime.calls.detectors import Detectors
from antiphon.runtime.calls.events import Event
from antiphon.runtime.calls.sinks import Sink
from antiphon.runtime.calls.thread_call import ThreadCall
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnDetection, TurnSettings
from antiphon.runtime.transcription.detection.voice_activity import VoiceTrack
from antiphon.runtime.transcription.transcriber import Transcriber, TranscriptionEngine
from antiphon.runtime.transcription.windows import MIN_VOICE
from antiphon.runtime.voice import turn_detection as turning
from antiphon.runtime.voice.end_of_turn import LOOK_SAMPLES, Question, TurnPrediction, ask
from antiphon.runtime.voice.turn_detection import PAUSE, SAMPLES_PER_MS, TurnDetector
from antiphon.runtime.voice.turn_jobs import MAX_SILENCE, QUIET_SEARCH_SECONDS, TurnJobs
from antiphon.runtime.voice.turns import SpeechTurn

if TYPE_CHECKING:  # needs msgspec, which an embedded engine runs without
    from antiphon.runtime.calls.tasks import Hear

#: Maximum samples taken in at a time, so that decisions are made in the order of the sound.
STEP = 2048
#: Tolerated jitter: chunks may arrive this far ahead of real time.
JITTER_SECONDS = 0.2
#: Minimum samples for a commit.
MIN_COMMIT = 100 * SAMPLES_PER_MS


@dataclass(frozen=True)
class _Sound:
    samples: Floats
    arrived: float


_Command = Callable[[], None]
_Item = Request | _Sound | TurnPrediction | _Command


class HearingCall(ThreadCall):
    """A call in its own thread. Emits the events of `runtime/calls/hearing.py`; the last is `HearingEnded`.

    Create it, `prepare` it, then `start` it. Every control may be used from any thread, also before that.
    """

    id_prefix = "hearing"
    _subject = "the hearing call"
    _transcriber: Transcriber
    _track: VoiceTrack
    _detector: TurnDetector
    _jobs: TurnJobs

    def __init__(self, call_id: str, sink: Sink, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(call_id, sink)
        self._clock = clock
        self._inbox: SimpleQueue[_Item] = SimpleQueue()
        self._is_closed = threading.Event()
        self._is_ending = False
        self._pending: deque[_Sound | _Command] = deque()  # taken from the inbox, in order
        self._question: Question | None = None  # last question, until it is answered
        self._turn: SpeechTurn | None = None  # open turn
        self._num_turns = 0
        self._floor = 0  # sound before this position was committed or cleared
        self._arrivals: deque[tuple[int, float]] = deque(maxlen=1024)  # end and arrival time of each chunk
        self._settings = TurnSettings()
        self._room = RoomLevel()

    def prepare(self, transcriber: Transcriber, options: HearingOptions) -> None:
        """Load the detectors; raise the error that rejects the call."""
        self._transcriber = transcriber
        self._settings = options.turns
        self._track = VoiceTrack(self._detectors)
        self._detector = TurnDetector(options.turns, self._track.frame)
        self._jobs = TurnJobs(transcriber, options, self._track, self._inbox, self._emit, self._clock)
        if options.turns.detection is TurnDetection.SEMANTIC_VAD:
            self._detectors.model(END_OF_TURN)

    @property
    def _detectors(self) -> Detectors:
        return self._transcriber.port.detectors

    def begin(self, engine: TranscriptionEngine, request: Hear) -> None:
        self.prepare(engine.transcriber(request.model), request.options)
        self._start_accepted()

    # -- for any thread; see `AsyncHearing` ---------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        if self._is_closed.is_set():
            raise EngineError("the hearing call has ended")
        self._inbox.put(_Sound(np.asarray(samples, np.float32), self._clock()))

    def commit(self) -> None:
        self._inbox.put(self._commit)

    def clear(self) -> None:
        self._inbox.put(self._clear)

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        self._inbox.put(lambda: self._configure(turns, transcription))

    def set_min_speech(self, milliseconds: int) -> None:
        self._inbox.put(lambda: self._detector.set_min_speech(milliseconds * SAMPLES_PER_MS))

    def hold_hypotheses(self, is_held: bool) -> None:
        self._inbox.put(lambda: self._jobs.hold(is_held))

    def rest(self, milliseconds: int = 0) -> None:
        self._inbox.put(lambda: self._detector.rest(self._track.end + milliseconds * SAMPLES_PER_MS))

    def finish(self) -> None:
        self._inbox.put(self._finish)

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End now; discard sound that has not been transcribed."""
        self._is_closed.set()
        self._inbox.put(lambda: None)

    # -- the call's thread --------------------------------------------------------------------------------------

    def _work(self) -> Event:
        try:
            while not self._is_closed.is_set() and not (self._is_ending and self._jobs.is_idle):
                for item in self._received():
                    self._take(item)
                while self._pending and not self._must_wait() and not self._is_closed.is_set():
                    self._carry_out(self._pending.popleft())
                if not self._is_closed.is_set():
                    self._jobs.advance(self._speaking)
        except Exception:
            if not self._is_closed.is_set():  # otherwise the error only says that the engine is closed
                raise
        finally:
            self._jobs.close()
            self._is_closed.set()
        return events.HearingEnded(self._track.end / SPEECH_RATE)

    @property
    def _speaking(self) -> SpeechTurn | None:
        """The turn that is being spoken; None at a pause."""
        return self._turn if self._detector.is_voiced else None

    def _received(self) -> list[_Item]:
        """Return all received items; wait for the first, or until a hypothesis is due."""
        items: list[_Item] = []
        try:
            items.append(self._inbox.get(timeout=self._jobs.seconds_to_hypothesis(self._speaking)))
            while True:
                items.append(self._inbox.get_nowait())
        except Empty:
            return items

    def _take(self, item: _Item) -> None:
        match item:
            case Request():
                self._jobs.take(item)
            case TurnPrediction():
                self._answered(item)
            case _Sound():
                self._queue(item)
            case _:
                self._pending.append(item)

    def _queue(self, sound: _Sound) -> None:
        """Join sound with waiting sound, up to `STEP` samples, since each call of the detector waits for the engine."""
        samples, last = sound.samples, self._pending[-1] if self._pending else None
        if isinstance(last, _Sound) and len(last.samples) + len(samples) <= STEP:
            samples = np.concatenate([last.samples, samples])
            self._pending.pop()
        pieces = (samples[start : start + STEP] for start in range(0, len(samples), STEP))
        self._pending.extend(_Sound(piece, sound.arrived) for piece in pieces)

    def _carry_out(self, item: _Sound | _Command) -> None:
        if not isinstance(item, _Sound):
            item()
        elif not self._is_ending:
            self._hear(item.samples, item.arrived)

    def _must_wait(self) -> bool:
        """Return whether sound has come faster than it was spoken while the end-of-turn model is asked.

        Then the model's answer goes first, so that turns of a recording are cut as if it were spoken now.
        """
        question = self._question
        if question is None or not isinstance(self._pending[0], _Sound):
            return False
        ahead = (self._track.end - question.position) / SPEECH_RATE
        return ahead > self._clock() - question.asked + JITTER_SECONDS

    def _emit(self, event: events.HearingEvent) -> None:
        self._sink.put(self.id, event)

    # -- sound --------------------------------------------------------------------------------------------------

    def _hear(self, samples: Floats, arrived: float, *, final: bool = False) -> None:
        voice = self._track.push(samples, final=final)
        self._arrivals.append((self._track.end, arrived))
        for probability in voice.tolist():
            start = self._detector.position
            frame = self._track.samples(start, start + self._track.frame)
            for decision in self._detector.push(self._room.voice(frame, probability)):
                self._decided(decision)
        is_manual = self._settings.detection is TurnDetection.MANUAL
        if is_manual and self._turn is None and voice.max(initial=0.0) >= MIN_VOICE:
            # The turn begins where the last one ended, but little of the silence before its speech is transcribed.
            self._turn = self._opened(self._floor, self._track.end - len(samples) - MAX_SILENCE)
        turn = self._turn
        if turn is not None and turn.guess is None and self._track.end - turn.window_start > self._jobs.max_open:
            cut = self._track.quietest(QUIET_SEARCH_SECONDS)
            self._jobs.cut(turn, cut, cut)
        kept = self._track.end - LOOK_SAMPLES  # also more than the longest prefix
        self._track.forget(min(kept, self._jobs.first_needed(kept)))

    def _opened(self, start: int, window_start: int) -> SpeechTurn:
        self._num_turns += 1
        return self._jobs.open(self._num_turns, start, max(start, window_start))

    def _decided(self, decision: turning.Decision) -> None:
        turn = self._turn
        match decision, turn:
            case turning.Began(), _:
                self._turn = turn = self._opened(decision.start, decision.start)
                turn.is_named = True
                self._emit(events.SpeechStarted(turn.number, _ms(turn.start)))
            case turning.Paused(), SpeechTurn():
                self._jobs.pause(turn, decision.end)
            case turning.Resumed(), SpeechTurn():
                self._resume(turn)
            case turning.Look(), SpeechTurn():
                self._look(decision, turn)
            case turning.Completed(), SpeechTurn():
                self._end(turn, decision.end, decision.end + PAUSE)
            case turning.Dropped(), SpeechTurn():
                self._drop(turn)
            case turning.Idle(), _:
                self._emit(events.IdleTimeout(_ms(decision.start), _ms(decision.end)))

    def _resume(self, turn: SpeechTurn) -> None:
        guess = turn.guess
        self._jobs.resume(turn)
        if guess is not None:
            self._emit(events.TurnResumed(turn.number))
            if self._track.end - turn.window_start > self._jobs.max_open:
                pause = guess.end + PAUSE
                self._jobs.cut(turn, pause, max(pause, self._track.end - 2 * STEP))

    def _end(self, turn: SpeechTurn, end: int, sound_end: int) -> None:
        self._turn = None
        self._floor = self._track.end
        marks = events.TurnMarks(
            speech_ended=self._arrival(end),
            decided=self._clock(),
            first_look=turn.first_look,
            look_seconds=turn.look_seconds,
            num_hypotheses=turn.num_hypotheses,
            hypothesis_seconds=turn.hypothesis_seconds,
        )
        self._emit(events.TurnEnded(turn.number, _ms(turn.start), _ms(end), marks))
        self._jobs.end(turn, end, min(sound_end, self._track.end), marks)

    def _drop(self, turn: SpeechTurn) -> None:
        self._turn = None
        self._jobs.drop(turn)
        if turn.is_named:
            self._emit(events.TurnDropped(turn.number))

    def _arrival(self, position: int) -> float:
        """Return when the sound up to a position had arrived."""
        return next((arrived for end, arrived in self._arrivals if end >= position), self._clock())

    # -- the end-of-turn model ----------------------------------------------------------------------------------

    def _look(self, look: turning.Look, turn: SpeechTurn) -> None:
        end = self._detector.position
        self._question = Question(look, turn, end, self._clock())
        turn.first_look = turn.first_look or self._question.asked
        samples = self._track.samples(max(turn.start, self._track.origin, end - LOOK_SAMPLES), end)
        ask(self._detectors, self._question, samples, self._inbox.put)

    def _answered(self, answer: TurnPrediction) -> None:
        if answer.error is not None:
            raise answer.error
        question = answer.question
        turn, look = question.turn, question.look
        if self._question is question:
            self._question = None
        turn.look_seconds += self._clock() - question.asked
        if turn is self._turn:
            self._emit(events.TurnLooked(turn.number, answer.probability, _ms(look.end)))
            for decision in self._detector.answer(look, answer.probability):
                self._decided(decision)

    # -- controls -----------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        num_samples = self._track.end - (self._floor if self._turn is None else min(self._floor, self._turn.start))
        if num_samples < MIN_COMMIT:
            self._emit(events.CommitEmpty(_ms(num_samples)))
            return
        turn = self._turn or self._opened(self._floor, self._floor)
        end = self._track.end if turn.guess is None else turn.guess.end
        self._end(turn, end, self._track.end)
        self._detector.restart(self._track.end)

    def _clear(self) -> None:
        if self._turn is not None:
            self._drop(self._turn)
        self._floor = self._track.end
        self._detector.restart(self._floor)
        self._emit(events.Cleared(_ms(self._floor)))

    def _configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        try:
            self._jobs.configure(transcription)
        except AntiphonError as error:
            self._emit(events.SettingsRejected(type(error).__name__, str(error)))
            return
        was_manual = self._settings.detection is TurnDetection.MANUAL
        is_manual = turns.detection is TurnDetection.MANUAL
        self._settings = turns
        self._detector.configure(turns)
        if self._turn is not None and is_manual and not was_manual:
            self._resume(self._turn)
        elif self._turn is not None and was_manual and not is_manual:
            self._drop(self._turn)

    def _finish(self) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        self._hear(np.zeros(0, np.float32), self._clock(), final=True)
        if self._turn is not None:
            turn = self._turn
            self._end(turn, self._track.end if turn.guess is None else turn.guess.end, self._track.end)


def _ms(position: int) -> int:
    return position // SAMPLES_PER_MS
