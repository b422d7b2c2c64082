"""`CallControl`: what a reader may do to the call that it reads from, here or in the engine process."""

from __future__ import annotations

import itertools
from typing import Protocol

from antiphon.audio.samples import Floats
from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import TurnSettings

#: Of one prompt, in one call.
MAX_SAMPLES = 128

_numbers = itertools.count(1)


def new_id(kind: str = "request") -> str:
    """An id that no other call of this process has."""
    return f"{kind}-{next(_numbers)}"


class CallControl(Protocol):
    """Every method returns at once and may be called from any thread, also after the call has ended."""

    @property
    def id(self) -> str: ...

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        """End the call. Its last events can still be read."""


class SpeechControl(CallControl, Protocol):
    def release(self) -> None:
        """A chunk has been read: another may be made."""

    def append(self, text: str) -> None:
        """More of a text that is spoken while it is written."""

    def end_text(self) -> None:
        """No more text will come."""


class SoundControl(CallControl, Protocol):
    """Of a live session, or of a recording that is sent while it is transcribed."""

    def push(self, samples: Floats) -> None:
        """Mono sound at 16 kHz."""

    def finish(self) -> None:
        """No more sound will come; the transcript follows."""


class TurnControl(Protocol):
    """What decides about turns of speech. Every method returns at once and may be called after the end."""

    def push(self, samples: Floats) -> None:
        """Mono sound at 16 kHz."""

    def commit(self) -> None:
        """End the turn here. `TurnEnded` or `CommitEmpty` follows."""

    def clear(self) -> None:
        """Drop the sound of the turn that has not ended. `Cleared` follows."""

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        """Use other settings from here on."""

    def set_min_speech(self, milliseconds: int) -> None:
        """How long speech must be to open a turn."""

    def hold_hypotheses(self, is_held: bool) -> None:
        """Begin no hypotheses while an answer is being made."""

    def rest(self, milliseconds: int = 0) -> None:
        """An answer will have been heard after so much more sound: the idle timeout counts from there."""


class HearingControl(TurnControl, SoundControl, Protocol):
    """The control of a call that hears turns of speech."""
