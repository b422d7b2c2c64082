"""`DialogueTurn`: a turn of the person, as the session knows it."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.voice.answering.response import Response
from antiphon.runtime.voice.settings import VoiceSettings


@dataclass(frozen=True)
class SpeculativeAnswer:
    """An answer to a turn that may go on, valid while text, settings and conversation stay the same."""

    response: Response
    text: str
    settings: VoiceSettings
    version: int


@dataclass
class DialogueTurn:
    """A turn, from its first speech to its transcript."""

    item_id: str
    #: True from `UserSpeechStarted` to `UserSpeechStopped`.
    is_open: bool = False
    is_ended: bool = False
    #: True if its transcript is to be answered without a request.
    is_answered: bool = False
    settled: str = ""
    shown: str = ""  # transcript text emitted in deltas
    tail: str = ""  # unsettled words emitted last
    speculation: SpeculativeAnswer | None = None
