"""`TurnDetector`: from the probabilities of speech in frames, and the end-of-turn model's answers, to turns.

The detector has no clock and no thread. Positions and lengths are in samples of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.audio.samples import SPEECH_RATE
from antiphon.runtime.calls.turn_settings import TurnDetection, TurnSettings

SAMPLES_PER_MS = SPEECH_RATE // 1000
#: Probability below the threshold down to which a frame inside speech counts as voiced.
RELEASE = 0.15
#: Silence after which the turn may be over and its transcript is begun. The turn's sound includes this silence.
PAUSE = 96 * SAMPLES_PER_MS
#: Lengths of silence at which the end-of-turn model is asked.
LOOKS = tuple(ms * SAMPLES_PER_MS for ms in (192, 512, 1024, 2048, 4096))
#: Minimum probability, from the end-of-turn model, of a complete turn.
COMPLETE = 0.5
#: Minimum speech of a turn; turns with less are dropped.
MIN_TURN = 96 * SAMPLES_PER_MS


@dataclass(frozen=True)
class Began:
    """A turn has begun. `start` includes the prefix."""

    start: int


@dataclass(frozen=True)
class Paused:
    """The turn may have ended at `end`, after which `PAUSE` samples of silence have followed."""

    end: int


@dataclass(frozen=True)
class Resumed:
    """Speech resumed after `Paused`."""


@dataclass(frozen=True)
class Look:
    """A question to the end-of-turn model about a turn that paused at `end`. Pass it to `TurnDetector.answer`."""

    number: int
    end: int


@dataclass(frozen=True)
class Completed:
    """The turn is over; its speech ended at `end`."""

    end: int


@dataclass(frozen=True)
class Dropped:
    """The open turn was not speech."""


@dataclass(frozen=True)
class Idle:
    """Nobody spoke for the idle timeout."""

    start: int
    end: int


Decision = Began | Paused | Resumed | Look | Completed | Dropped | Idle


class TurnDetector:
    """Detector of turns in frames of `frame` samples each.

    Every turn gives `Began`, then `Paused` and `Resumed` alternately, with `Look`s after a `Paused`, then `Completed`
    (after a `Paused`) or `Dropped`. A turn that the caller ends gives neither. Manual detection decides nothing.
    """

    def __init__(self, settings: TurnSettings, frame: int) -> None:
        self._settings = settings
        self._frame = frame
        self._min_speech = 0
        self._position = 0  # end of the last frame
        self._floor = 0  # sound before this position belongs to earlier turns
        self._start: int | None = None  # start of the speech that is, or may become, a turn
        self._is_open = False
        self._is_voiced = False
        self._speech_end = 0
        self._num_voiced = 0  # samples
        self._is_paused = False
        self._num_looks = 0  # questions in this silence
        self._look: Look | None = None
        self._look_number = 0
        self._idle_start: int | None = None

    @property
    def position(self) -> int:
        """End of the last frame."""
        return self._position

    @property
    def is_voiced(self) -> bool:
        """Whether the last frame was speech."""
        return self._is_voiced

    # -- controls -----------------------------------------------------------------------------------------------

    def configure(self, settings: TurnSettings) -> None:
        """Use other settings from the next frame on. An open turn goes on, except to or from manual detection."""
        changed = {settings.detection, self._settings.detection}
        if len(changed) == 2 and TurnDetection.MANUAL in changed:
            self.restart(0)
        self._settings = settings

    def set_min_speech(self, length: int) -> None:
        """Set the minimum samples of speech that open a turn."""
        self._min_speech = length

    def restart(self, floor: int) -> None:
        """End the open turn, if any. Sound before `floor` belongs to no later turn."""
        self._floor = max(self._floor, floor)
        self._start, self._look = None, None
        self._is_open = self._is_voiced = self._is_paused = False
        self._num_voiced = self._num_looks = 0

    def rest(self, position: int) -> None:
        """Count the idle timeout from this position."""
        self._idle_start = position

    # -- input --------------------------------------------------------------------------------------------------

    def push(self, probability: float) -> list[Decision]:
        """Take the next frame's probability of speech; return the decisions."""
        settings = self._settings
        start, self._position = self._position, self._position + self._frame
        limit = max(settings.threshold - RELEASE, 0.01) if self._is_voiced else settings.threshold
        self._is_voiced = probability >= limit
        if settings.detection is TurnDetection.MANUAL:
            return []
        decided = self._speech(start) if self._is_voiced else self._silence()
        return decided + self._idle()

    def answer(self, look: Look, probability: float) -> list[Decision]:
        """Take the end-of-turn model's answer; return the decisions. An answer after speech resumed is ignored."""
        if self._look is None or self._look.number != look.number:
            return []
        self._look = None
        if probability < COMPLETE or self._settings.detection is not TurnDetection.SEMANTIC_VAD:
            return []
        return self._ended()

    # -- decisions ----------------------------------------------------------------------------------------------

    def _speech(self, start: int) -> list[Decision]:
        decided: list[Decision] = []
        if self._start is None:
            self._start = start
        if self._is_paused:
            decided.append(Resumed())
        self._is_paused, self._look, self._num_looks = False, None, 0
        self._speech_end = self._position
        self._num_voiced += self._frame
        if not self._is_open and self._num_voiced >= self._min_speech:
            self._is_open = True
            self._idle_start = None
            prefix = self._settings.prefix_ms * SAMPLES_PER_MS
            decided.append(Began(max(self._floor, self._start - prefix)))
        return decided

    def _silence(self) -> list[Decision]:
        if self._start is None:
            return []
        silence = self._position - self._speech_end
        if not self._is_open:
            if silence >= PAUSE:  # too short to be a turn
                self.restart(0)
            return []
        if self._num_voiced < MIN_TURN:
            if silence < LOOKS[0]:
                return []
            self.restart(0)
            return [Dropped()]
        decided: list[Decision] = []
        if silence >= PAUSE and not self._is_paused:
            self._is_paused = True
            decided.append(Paused(self._speech_end))
        if self._settings.detection is TurnDetection.SERVER_VAD:
            longest = self._settings.silence_ms
        else:
            longest = self._settings.eagerness.longest_wait_ms
            decided += self._looks(silence)
        return decided + (self._ended() if silence >= longest * SAMPLES_PER_MS else [])

    def _looks(self, silence: int) -> list[Decision]:
        due = sum(silence >= length for length in LOOKS)
        if self._look is not None or due <= self._num_looks:
            return []
        self._num_looks = due
        self._look_number += 1
        self._look = Look(self._look_number, self._speech_end)
        return [self._look]

    def _ended(self) -> list[Decision]:
        end = self._speech_end
        self.restart(end + PAUSE)
        return [Completed(end)]

    def _idle(self) -> list[Decision]:
        timeout, start = self._settings.idle_timeout_ms, self._idle_start
        if timeout is None or start is None or self._start is not None:
            return []
        if self._position - start < timeout * SAMPLES_PER_MS:
            return []
        self._idle_start = None
        return [Idle(start, self._position)]
