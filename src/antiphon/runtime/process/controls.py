"""`control`: what a caller's message does to a call that is open."""

from __future__ import annotations

from typing import Any

import numpy as np

from antiphon.audio.samples import Floats
from antiphon.runtime.process import hearing_messages, messages
from antiphon.runtime.speech.call import SpeechCall
from antiphon.runtime.transcription.call import TranscriptionCall
from antiphon.runtime.transcription.detection.call import VoiceActivityCall
from antiphon.runtime.transcription.listening.call import LiveCall
from antiphon.runtime.voice.hearing import HearingCall


def control(call: Any, command: messages.Control) -> None:
    """Have the call do what the message says. A message that the call does not know is ignored.

    Raises the `AntiphonError` of a call that has ended.
    """
    match command, call:
        case messages.Abort(), _:
            call.cancel(command.reason)
        case messages.PushAudio(), TranscriptionCall() | LiveCall() | VoiceActivityCall() | HearingCall():
            call.push(floats(command.samples))
        case messages.EndAudio(), TranscriptionCall() | LiveCall() | VoiceActivityCall() | HearingCall():
            call.finish()
        case messages.AppendText(), SpeechCall(is_open=True):
            call.append(command.text)
        case messages.EndText(), SpeechCall(is_open=True):
            call.end_text()
        case messages.ReleaseChunk(), SpeechCall():
            call.release()
        case _, HearingCall():
            _control_hearing(call, command)


def _control_hearing(call: HearingCall, command: messages.Control) -> None:
    match command:
        case hearing_messages.CommitTurn():
            call.commit()
        case hearing_messages.ClearSound():
            call.clear()
        case hearing_messages.ConfigureHearing():
            call.configure(command.turns, command.transcription)
        case hearing_messages.SetMinSpeech():
            call.set_min_speech(command.milliseconds)
        case hearing_messages.HoldHypotheses():
            call.hold_hypotheses(command.is_held)
        case hearing_messages.CountIdle():
            call.rest(command.milliseconds)


def floats(samples: bytes) -> Floats:
    """Samples from float32 bytes in native order."""
    return np.frombuffer(samples[: len(samples) // 4 * 4], np.float32)
