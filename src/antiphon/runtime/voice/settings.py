"""`VoiceSettings`: how a session hears, answers and speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from antiphon.runtime.calls.transcription_options import TranscriptionOptions
from antiphon.runtime.calls.turn_settings import TurnSettings

#: Maximum tokens of a spoken answer whose settings have no limit.
SPOKEN_TOKENS = 1024


class Modality(StrEnum):
    """The medium of a response. Audio comes with its transcript."""

    AUDIO = "audio"
    TEXT = "text"


class ToolChoice(StrEnum):
    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True)
class ToolDefinition:
    """A function that the model may call. `parameters` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VoiceSettings:
    """Settings of a session, or of one response.

    A model of None is the default model. A session that does not `answer` only transcribes. `create_response` answers
    every turn that turn detection ends; `interrupt_response` ends a response when the person speaks. Transcripts of the
    person's speech are always made; `show_transcripts` emits events for them, and `show_unsettled` also for words that
    may still change. `tool_name` is the only tool that a `REQUIRED` choice allows. `parallel_tools` sets whether an
    answer may call several tools; None leaves that to the model. `max_tokens` of None is `SPOKEN_TOKENS` for speech.
    """

    model: str | None = None
    instructions: str = ""
    modality: Modality = Modality.AUDIO
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    tool_name: str | None = None
    parallel_tools: bool | None = None
    max_tokens: int | Literal["inf"] | None = None
    temperature: float | None = None
    speech_model: str | None = None
    voice: str | None = None
    speed: float = 1.0
    turns: TurnSettings = field(default_factory=TurnSettings)
    create_response: bool = True
    interrupt_response: bool = True
    transcription_model: str | None = None
    transcription: TranscriptionOptions = field(default_factory=TranscriptionOptions)
    show_transcripts: bool = True
    show_unsettled: bool = False
    #: Whether the oldest items are left out when the model's context is full; otherwise the response fails.
    truncate_history: bool = True
    answer: bool = True

    @property
    def token_limit(self) -> int | None:
        """Maximum tokens of an answer; None if only the context limits it."""
        if self.max_tokens is None:
            return SPOKEN_TOKENS if self.modality is Modality.AUDIO else None
        return None if self.max_tokens == "inf" else self.max_tokens
