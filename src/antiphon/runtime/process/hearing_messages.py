"""The messages of hearing calls to the engine process; see `AsyncHearing` for what each control means."""

from __future__ import annotations

import msgspec

from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions, TurnSettings


class Hear(msgspec.Struct, frozen=True, tag=True):
    """Turns of speech and their transcripts. A `HearingCall`. Sound follows in `PushAudio`; `EndAudio` ends it."""

    id: str
    model: str
    options: HearingOptions


class CommitTurn(msgspec.Struct, frozen=True, tag=True):
    id: str


class ClearSound(msgspec.Struct, frozen=True, tag=True):
    id: str


class ConfigureHearing(msgspec.Struct, frozen=True, tag=True):
    id: str
    turns: TurnSettings
    transcription: TranscriptionOptions


class SetMinSpeech(msgspec.Struct, frozen=True, tag=True):
    id: str
    milliseconds: int


class HoldHypotheses(msgspec.Struct, frozen=True, tag=True):
    id: str
    is_held: bool


class CountIdle(msgspec.Struct, frozen=True, tag=True):
    """The idle timeout counts from so many milliseconds after the sound so far."""

    id: str
    milliseconds: int


HearingControls = CommitTurn | ClearSound | ConfigureHearing | SetMinSpeech | HoldHypotheses | CountIdle
