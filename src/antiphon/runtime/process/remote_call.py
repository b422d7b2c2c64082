"""`RemoteCall`: the control of a call that runs in the engine process."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from antiphon.audio.samples import Floats
from antiphon.engine.request import FinishReason
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import TurnSettings
from antiphon.runtime.process.hearing_messages import (
    ClearSound,
    CommitTurn,
    ConfigureHearing,
    CountIdle,
    HoldHypotheses,
    SetMinSpeech,
)
from antiphon.runtime.process.messages import Abort, AppendText, EndAudio, EndText, PushAudio, ReleaseChunk


class RemoteCall:
    """Each method is a message. See `CallControl`, `SpeechControl`, `SoundControl` and `HearingControl`."""

    def __init__(self, call_id: str, send: Callable[[msgspec.Struct], None]) -> None:
        self.id = call_id
        self._send = send

    def cancel(self, reason: FinishReason = FinishReason.CANCELLED) -> None:
        self._send(Abort(self.id, reason))

    def release(self) -> None:
        self._send(ReleaseChunk(self.id))

    def append(self, text: str) -> None:
        self._send(AppendText(self.id, text))

    def end_text(self) -> None:
        self._send(EndText(self.id))

    def push(self, samples: Floats) -> None:
        self._send(PushAudio(self.id, np.asarray(samples, np.float32).tobytes()))

    def finish(self) -> None:
        self._send(EndAudio(self.id))

    def commit(self) -> None:
        self._send(CommitTurn(self.id))

    def clear(self) -> None:
        self._send(ClearSound(self.id))

    def configure(self, turns: TurnSettings, transcription: TranscriptionOptions) -> None:
        self._send(ConfigureHearing(self.id, turns, transcription))

    def set_min_speech(self, milliseconds: int) -> None:
        self._send(SetMinSpeech(self.id, milliseconds))

    def hold_hypotheses(self, is_held: bool) -> None:
        self._send(HoldHypotheses(self.id, is_held))

    def rest(self, milliseconds: int = 0) -> None:
        self._send(CountIdle(self.id, milliseconds))
