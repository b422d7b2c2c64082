"""Events of voice activity detection in live sound: where speech begins and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.calls.events import CallEvent, FinalEvent


@dataclass(frozen=True)
class VoiceStarted(CallEvent):
    """Speech began at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceStopped(CallEvent):
    """Speech ended at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceEnded(FinalEvent):
    """The last event: the sound has ended, after `seconds` of it."""

    seconds: float


VoiceEvent = VoiceStarted | VoiceStopped | VoiceEnded
