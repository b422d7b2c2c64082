"""What voice activity detection in sound that is being sent gives: where speech begins and where it ends."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class VoiceStarted:
    """Speech began at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceStopped:
    """The speech that began last ended at `seconds` of the sound."""

    seconds: float


@dataclass(frozen=True)
class VoiceEnded:
    """The sound has ended, after `seconds` of it. Nothing follows."""

    seconds: float


VoiceEvent = VoiceStarted | VoiceStopped | VoiceEnded
