"""`Listening`: a session's hearing, which is reopened when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from antiphon.audio.samples import SPEECH_RATE, Floats
from antiphon.errors import AntiphonError, EngineError
from antiphon.runtime.calls.hearing import (
    Cleared,
    HearingEnded,
    HearingEvent,
    IdleTimeout,
    SpeechStarted,
    TurnEnded,
    TurnGuess,
    TurnLooked,
)
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.voice.dialogue.context import SessionContext
from antiphon.runtime.voice.services import Hearing

_log = logging.getLogger(__name__)

#: Seconds between attempts to reopen hearing; the last value repeats.
RETRIES = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
#: Maximum seconds of sound kept while hearing is not open; a model may have to be loaded first.
MAX_WAITING = 330.0


class Listening:
    """Hearing with positions in the session's sound. Controls wait in order until hearing is open.

    `on_lost` is called when hearing is lost, with its sound and controls so far: with the error, or with None after a
    restart and after repeated failures. `on_overflow` is called when sound is discarded because too much waits.
    """

    def __init__(
        self,
        context: SessionContext,
        on_event: Callable[[HearingEvent], None],
        on_lost: Callable[[Exception | None], None],
        on_overflow: Callable[[], None],
    ) -> None:
        self._context = context
        self._on_event, self._on_lost, self._on_overflow = on_event, on_lost, on_overflow
        self._hearing: Hearing | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[Callable[[Hearing], None]] = deque()
        self._num_waiting = 0  # samples
        self._offset_ms = 0  # position in the session's sound at which the hearing's begins
        self._min_speech_ms = 0
        self._is_held = False
        self._num_failures = 0  # consecutive
        #: Number of samples pushed.
        self.num_samples = 0

    @property
    def position_ms(self) -> int:
        """End of the session's sound, in milliseconds."""
        return self.num_samples * 1000 // SPEECH_RATE

    @property
    def waiting_seconds(self) -> float:
        """Seconds of sound that wait until hearing is open."""
        return self._num_waiting / SPEECH_RATE

    def start(self) -> None:
        self._task = self._context.tasks.start(self._run())

    def restart(self) -> None:
        """Reopen hearing with another model. Turns that are not transcribed are lost."""
        self.close()
        self._num_failures = 0
        self._on_lost(None)
        self.start()

    def close(self) -> None:
        self._drop()
        if self._task is not None:
            self._task.cancel()

    # -- controls -----------------------------------------------------------------------------------------------

    def push(self, samples: Floats) -> None:
        if self._hearing is None:
            if self._num_waiting + len(samples) > MAX_WAITING * SPEECH_RATE:
                self._on_overflow()
                return
            self._num_waiting += len(samples)
        self.num_samples += len(samples)
        self._control(lambda hearing: hearing.push(samples))

    def commit(self) -> None:
        self._control(lambda hearing: hearing.commit())

    def clear(self) -> None:
        self._control(lambda hearing: hearing.clear())

    def rest(self, milliseconds: int) -> None:
        self._control(lambda hearing: hearing.rest(milliseconds))

    def configure(self) -> None:
        """Apply the session's current settings."""
        settings = self._context.settings
        if self._hearing is not None:  # hearing that is not open yet will be opened with them
            self._hearing.configure(settings.turns, settings.transcription)

    def set_min_speech(self, milliseconds: int) -> None:
        if milliseconds != self._min_speech_ms:
            self._min_speech_ms = milliseconds
            if self._hearing is not None:
                self._hearing.set_min_speech(milliseconds)

    def hold_hypotheses(self, is_held: bool) -> None:
        if is_held != self._is_held:
            self._is_held = is_held
            if self._hearing is not None:
                self._hearing.hold_hypotheses(is_held)

    def _control(self, action: Callable[[Hearing], None]) -> None:
        if self._hearing is None:
            self._waiting.append(action)
        else:
            action(self._hearing)

    # -- the task -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._read(await self._open())
            except Exception as error:
                self._lose(error)
                await asyncio.sleep(RETRIES[min(self._num_failures, len(RETRIES)) - 1])

    async def _open(self) -> Hearing:
        settings = self._context.settings
        options = HearingOptions(settings.turns, settings.transcription)
        hearing = await self._context.services.hear(options, settings.transcription_model)
        self._offset_ms = (self.num_samples - self._num_waiting) * 1000 // SPEECH_RATE
        self._num_waiting = 0
        self._hearing = hearing
        if settings is not self._context.settings:
            self.configure()
        hearing.set_min_speech(self._min_speech_ms)
        hearing.hold_hypotheses(self._is_held)
        while self._waiting:
            self._waiting.popleft()(hearing)
        return hearing

    async def _read(self, hearing: Hearing) -> None:
        while True:
            try:
                event = await hearing.__anext__()
            except StopAsyncIteration:
                break
            if isinstance(event, HearingEnded):
                break
            self._num_failures = 0
            self._on_event(self._shifted(event))
            if self._hearing is not hearing:
                await asyncio.sleep(0)  # the event's handler closed or restarted hearing: this task is cancelled
        raise EngineError("hearing has ended")

    def _lose(self, error: Exception) -> None:
        """Drop hearing; sound from here on waits for the next attempt. Report only the first failure in a row."""
        if not isinstance(error, AntiphonError):
            _log.error("hearing of a voice session failed", exc_info=error)
        self._drop()
        self._num_failures += 1
        self._on_lost(error if self._num_failures == 1 else None)

    def _drop(self) -> None:
        if self._hearing is not None:
            self._hearing.close()
            self._hearing = None
        self._waiting.clear()
        self._num_waiting = 0

    def _shifted(self, event: HearingEvent) -> HearingEvent:
        offset = self._offset_ms
        if not offset:
            return event
        if isinstance(event, SpeechStarted):
            return replace(event, start_ms=event.start_ms + offset)
        if isinstance(event, TurnEnded | IdleTimeout):
            return replace(event, start_ms=event.start_ms + offset, end_ms=event.end_ms + offset)
        if isinstance(event, TurnGuess | TurnLooked | Cleared):
            return replace(event, end_ms=event.end_ms + offset)
        return event
