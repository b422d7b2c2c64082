"""What voice activity detection in sound that is being sent gives: where speech begins and where it ends."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.calls.events import CallEvent, FinalEvent


@dataclass(frozen=True)
class VoiceStarted(CallEvent):
    """Speech began at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceStopped(CallEvent):
    """The speech that began last ended at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceEnded(FinalEvent):
    """The sound has ended, after `seconds` of it. Nothing follows."""

    seconds: float


VoiceEvent = VoiceStarted | VoiceStopped | VoiceEnded
