"""`VoiceServices`: what a session needs of an engine. A server, a command and tests each have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from antiphon.audio.samples import Floats
from antiphon.runtime.calls.control import TurnControl
from antiphon.runtime.calls.hearing import HearingEvent
from antiphon.runtime.calls.speech import SpeechChunk
from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import HearingOptions
from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.settings import VoiceSettings
from antiphon.text.tool_calls.pieces import CallArguments, CallStart, Content

#: What the model adds to its message, or to a call of a function. Reasoning is left out.
AnswerPiece = Content | CallStart | CallArguments


@dataclass(frozen=True)
class AnswerUsage:
    """`is_cut` says that the limit of tokens ended the answer, `is_repeating` that it repeated itself."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    is_cut: bool = False
    is_repeating: bool = False


@dataclass(frozen=True)
class HeardText:
    """The transcript of a recording. `seconds` is its length."""

    text: str
    language: str | None = None
    seconds: float = 0.0


class Hearing(TurnControl, Protocol):
    """A call that hears (`AsyncHearing`). The iterator raises what made it fail, and ends after `close`."""

    async def __anext__(self) -> HearingEvent: ...

    def close(self) -> None: ...


class Answer(Protocol):
    """An answer that is being written. The iterator raises what made it fail. `close` returns at once."""

    async def __anext__(self) -> AnswerPiece: ...

    @property
    def usage(self) -> AnswerUsage:
        """Of what has been read; complete after the last piece."""

    def close(self) -> None:
        """Abort the request. May be called twice, and after the end."""


class StreamingSynthesis(Protocol):
    """A text that is spoken while it is written (`AsyncSynthesis`). `close` aborts at once."""

    async def __anext__(self) -> SpeechChunk: ...

    def append(self, text: str) -> None: ...

    def end_text(self) -> None: ...

    def close(self) -> None: ...


class VoiceServices(Protocol):
    """Each method may wait until its model is loaded; it raises why it cannot be. Cancelling that wait, or a call that
    it opened, leaves nothing behind in the engine.
    """

    async def hear(self, options: HearingOptions, model: str | None) -> Hearing: ...

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> Answer:
        """The model's answer to a conversation, with the settings' instructions, tools and sampling.

        Messages without text may be among the items, also one of the person that has no transcript.
        """

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        """Put the prompt of a conversation into the prefix cache, with a low priority. The last message may go on."""

    async def speak(self, settings: VoiceSettings) -> StreamingSynthesis:
        """Speech of a text that is appended, with the settings' voice, paced for a listener."""

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        """The transcript of a message's sound (16 kHz) that the client gave."""


class Echo(Protocol):
    """Takes our own voice out of the microphone's sound (`EchoGuard`). Mono at 16 kHz."""

    def played(self, samples: Floats, at: float) -> None:
        """This goes to the speaker from `at` on, in milliseconds of the microphone's sound."""

    def stopped(self, at: float) -> None:
        """What was announced for later is not played."""

    def clean(self, samples: Floats) -> Floats:
        """The next samples of the microphone, as many as were given. May run in another thread than the others."""
