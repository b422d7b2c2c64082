"""`CallControl` and its variants: what a reader may do to its call, in this process or in the engine process."""

from __future__ import annotations

import itertools
from typing import Protocol

from antiphon.audio.samples import Floats
from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import TurnSettings

#: Maximum samples of one prompt in one call.
MAX_SAMPLES = 128

_numbers = itertools.count(1)


def new_id(kind: str = "request") -> str:
    """Return an id that is unique in this process."""
    return f"{kind}-{next(_numbers)}"


class CallControl(Protocol):
    """Control of a call. Every method returns at once, in any thread, also after the call has ended."""

    @property
    def id(self) -> str: ...

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the call. Its last events can still be read."""


class SpeechControl(CallControl, Protocol):
    def release(self) -> None:
        """Report that a chunk was read, so that another may be made."""

    def append(self, text: str) -> None:
        """Append to a text that is spoken while it is written."""

    def end_text(self) -> None:
        """Declare the text complete."""


class SoundControl(CallControl, Protocol):
    """Control of a live session, or of a recording that is sent while it is transcribed."""

    def push(self, samples: Floats) -> None:
        """Send mono samples at 16 kHz."""

    def finish(self) -> None:
        """Declare the sound complete; the last events follow."""


class TurnControl(Protocol):
    """Control of turn detection. Every method returns at once and may be called after the end."""

    def push(self, samples: Floats) -> None:
        """Send mono samples at 16 kHz."""

    def commit(self) -> None:
        """End the turn here. `TurnEnded` or `CommitEmpty` follows."""

    def clear(self) -> None:
        """Discard the sound of the open turn. `Cleared` follows."""

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        """Use these settings from here on."""

    def set_min_speech(self, milliseconds: int) -> None:
        """Set the minimum length of speech that opens a turn."""

    def hold_hypotheses(self, is_held: bool) -> None:
        """Begin no hypotheses while `is_held` is set, as while an answer is being made."""

    def rest(self, milliseconds: int = 0) -> None:
        """Count the idle timeout from `milliseconds` of sound after now, when an answer will have been heard."""


class HearingControl(TurnControl, SoundControl, Protocol):
    """Control of a call that hears turns of speech."""
