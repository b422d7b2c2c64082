"""`VoiceServices`: the engine services of a session. A server, a command and tests each implement them."""

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

#: Additions to the model's message, or to a function call. Reasoning is left out.
AnswerPiece = Content | CallStart | CallArguments


@dataclass(frozen=True)
class AnswerUsage:
    """Tokens of an answer. `is_cut`: the token limit ended it; `is_repeating`: it was ended as it repeated itself."""

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
    """A hearing call (`AsyncHearing`). The iterator raises the error of a failure, and ends after `close`."""

    async def __anext__(self) -> HearingEvent: ...

    def close(self) -> None: ...


class Answer(Protocol):
    """An answer while it is generated. The iterator raises the error of a failure. `close` returns at once."""

    async def __anext__(self) -> AnswerPiece: ...

    @property
    def usage(self) -> AnswerUsage:
        """Tokens read so far; complete after the last piece."""

    def close(self) -> None:
        """Abort the request. May be called twice, and after the end."""


class StreamingSynthesis(Protocol):
    """Speech of a text while it is written (`AsyncSynthesis`). `close` aborts at once."""

    async def __anext__(self) -> SpeechChunk: ...

    def append(self, text: str) -> None: ...

    def end_text(self) -> None: ...

    def close(self) -> None: ...


class VoiceServices(Protocol):
    """The engine services of a session. A method may wait for its model to load, and raises if that fails.

    Cancelling the wait, or a call that the method opened, leaves nothing behind in the engine.
    """

    async def hear(self, options: HearingOptions, model: str | None) -> Hearing: ...

    async def answer(self, items: Sequence[Item], settings: VoiceSettings) -> Answer:
        """Begin the model's answer to a conversation, with the settings' instructions, tools and sampling.

        The items may include messages without text, also a person's message without a transcript.
        """

    async def prefill(self, items: Sequence[Item], settings: VoiceSettings) -> None:
        """Put a conversation's prompt into the prefix cache, at low priority. Its last message may go on."""

    async def speak(self, settings: VoiceSettings) -> StreamingSynthesis:
        """Open a synthesis of a text that is appended, with the settings' voice, paced for a listener."""

    async def transcribe(self, samples: Floats, options: TranscriptionOptions, model: str | None) -> HeardText:
        """Transcribe the sound (16 kHz) of a message that the client gave."""


class Echo(Protocol):
    """Remover of our own voice from the microphone's sound (`EchoGuard`). Mono at 16 kHz."""

    def played(self, samples: Floats, at: float) -> None:
        """Announce sound that the speaker plays from `at` on, in milliseconds of the microphone's sound."""

    def stopped(self, at: float) -> None:
        """Report that sound announced for after `at` is not played."""

    def clean(self, samples: Floats) -> Floats:
        """Return the microphone's next samples without echo, as many as given. May run in another thread."""
