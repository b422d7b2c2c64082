"""`DialogueTurn`: a turn of the person, as the session knows it."""

from __future__ import annotations

from dataclasses import dataclass

from antiphon.runtime.voice.answering.response import Response
from antiphon.runtime.voice.settings import VoiceSettings


@dataclass(frozen=True)
class SpeculativeAnswer:
    """An answer to a turn that may go on. It holds while text, settings and conversation stay as they were."""

    response: Response
    text: str
    settings: VoiceSettings
    version: int


@dataclass
class DialogueTurn:
    """From its first speech to its transcript."""

    item_id: str
    #: `SpeechStarted` was emitted, and `SpeechStopped` was not.
    is_open: bool = False
    is_ended: bool = False
    #: Its transcript is to be answered without a request.
    is_answered: bool = False
    settled: str = ""
    shown: str = ""  # of it, in deltas
    tail: str = ""  # what was shown after it, and may change
    speculation: SpeculativeAnswer | None = None
