"""`AsyncHearing`: hearing for an asyncio reader, from a call in this process or in the engine process."""

from __future__ import annotations

from collections.abc import AsyncIterator

from antiphon.audio.samples import Floats, samples_of
from antiphon.runtime.calls.async_reader import AsyncReader
from antiphon.runtime.calls.control import HearingControl
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.calls.sinks import ThreadSink
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import TurnSettings


class AsyncHearing(AsyncReader[HearingEvent]):
    """An asynchronous iterator of a call's events, the last of which is `HearingEnded`. Controls never block.

    Leaving the loop does not end the call; `finish` and `close` do. A failure is raised by the iterator.
    """

    _control: HearingControl

    def __init__(self, control: HearingControl, sink: ThreadSink) -> None:
        super().__init__(control, sink)

    def __aiter__(self) -> AsyncIterator[HearingEvent]:
        return self

    def push(self, samples: Floats | bytes) -> None:
        """Add mono sound at 16 kHz: floats, or 16-bit little-endian bytes."""
        if not self._is_done:
            self._control.push(samples_of(samples))

    def commit(self) -> None:
        """End the turn here, with all sound since the last turn. `TurnEnded` or `CommitEmpty` follows."""
        if not self._is_done:
            self._control.commit()

    def clear(self) -> None:
        """Discard the sound since the last turn. `TurnDropped` follows if a turn was open, then `Cleared`."""
        if not self._is_done:
            self._control.clear()

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        """Use other settings from here on; an open turn goes on under them."""
        if not self._is_done:
            self._control.configure(turns, transcription)

    def set_min_speech(self, milliseconds: int) -> None:
        """Set the minimum length of speech that opens a turn: above 0 while the caller itself is speaking."""
        if not self._is_done:
            self._control.set_min_speech(milliseconds)

    def hold_hypotheses(self, is_held: bool) -> None:
        """Begin no hypotheses while held, as while an answer is being made. Guesses and final transcripts go on."""
        if not self._is_done:
            self._control.hold_hypotheses(is_held)

    def rest(self, milliseconds: int = 0) -> None:
        """Count the idle timeout from `milliseconds` of sound after now, when an answer will have been heard."""
        if not self._is_done:
            self._control.rest(milliseconds)

    def finish(self) -> None:
        """Declare the sound complete. An open turn ends and is transcribed; `HearingEnded` follows."""
        if not self._is_done:
            self._control.finish()
