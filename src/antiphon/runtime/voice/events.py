"""Events of a session, whatever the protocol. Their order is that of the Realtime service (docs/design/voice.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from antiphon.audio.samples import Floats
from antiphon.runtime.calls.transcript import Segment
from antiphon.runtime.voice.items import Item, Part
from antiphon.runtime.voice.settings import Modality, VoiceSettings
from antiphon.runtime.voice.waterfall import Waterfall


class SessionEvent:
    """Base of all events of a session."""


# -- the session and its input ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class SettingsChanged(SessionEvent):
    """`configure` was carried out."""

    settings: VoiceSettings


@dataclass(frozen=True)
class UserSpeechStarted(SessionEvent):
    """Speech began at `start_ms` of the session's sound. `item_id` is that of the turn's item."""

    item_id: str
    start_ms: int


@dataclass(frozen=True)
class UserSpeechStopped(SessionEvent):
    """Speech stopped. If no `BufferCommitted` follows, the sound was not speech."""

    item_id: str
    end_ms: int


@dataclass(frozen=True)
class BufferCommitted(SessionEvent):
    """A turn was committed; its item follows."""

    item_id: str
    previous_item_id: str | None


@dataclass(frozen=True)
class BufferCleared(SessionEvent):
    """`clear` was carried out."""


@dataclass(frozen=True)
class IdleTimedOut(SessionEvent):
    """Nothing was said for the idle timeout. A commit of an empty item and a response follow."""

    item_id: str
    start_ms: int
    end_ms: int


# -- items ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ItemAdded(SessionEvent):
    """An item was added to the conversation, complete or in progress.

    `previous_item_id` is None if the item is the first.
    """

    item: Item
    previous_item_id: str | None


@dataclass(frozen=True)
class ItemDone(SessionEvent):
    item: Item
    previous_item_id: str | None


@dataclass(frozen=True)
class ItemDeleted(SessionEvent):
    item_id: str


@dataclass(frozen=True)
class ItemTruncated(SessionEvent):
    """`truncate` was carried out: the item's sound after `end_ms` was not heard."""

    item_id: str
    content_index: int
    end_ms: int


@dataclass(frozen=True)
class ItemRetrieved(SessionEvent):
    item: Item


@dataclass(frozen=True)
class TranscriptDelta(SessionEvent):
    """Newly settled text of speech that goes on or has ended."""

    item_id: str
    content_index: int
    text: str


@dataclass(frozen=True)
class TranscriptUnsettled(SessionEvent):
    """Words after the settled text, which may still change. They replace those of the last such event."""

    item_id: str
    content_index: int
    text: str


@dataclass(frozen=True)
class TranscriptDone(SessionEvent):
    """The final transcript of a turn or message. `seconds` is the length of the speech."""

    item_id: str
    content_index: int
    text: str
    seconds: float
    language: str | None = None
    segments: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class TranscriptFailed(SessionEvent):
    item_id: str
    content_index: int
    message: str


# -- responses --------------------------------------------------------------------------------------------------


class ResponseStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class EndReason(StrEnum):
    """Reason for which a response was cancelled (the first two) or is incomplete."""

    TURN_DETECTED = "turn_detected"
    CLIENT_CANCELLED = "client_cancelled"
    MAX_TOKENS = "max_output_tokens"
    #: The answer repeated itself. The API has no word for that; this is its word for an answer that the server ends.
    REPETITION = "content_filter"


@dataclass(frozen=True)
class Usage:
    """Tokens of the chat, and seconds of sound: of the answered turn, and of the answer."""

    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    input_seconds: float = 0.0
    output_seconds: float = 0.0


@dataclass(frozen=True)
class ResponseState:
    """A snapshot of a response. `settings` are those that it is made with."""

    id: str
    settings: VoiceSettings
    in_conversation: bool = True
    metadata: Mapping[str, str] | None = None
    status: ResponseStatus = ResponseStatus.IN_PROGRESS
    reason: EndReason | None = None
    #: Code and message of the failure.
    error: tuple[str, str] | None = None
    output: tuple[Item, ...] = ()
    usage: Usage = field(default_factory=Usage)
    waterfall: Waterfall = field(default_factory=Waterfall)


@dataclass(frozen=True)
class ResponseStarted(SessionEvent):
    response: ResponseState


@dataclass(frozen=True)
class ResponseDone(SessionEvent):
    """The last event of a response, however it ends."""

    response: ResponseState


@dataclass(frozen=True)
class OutputItemAdded(SessionEvent):
    """An item in progress: a message without parts, or a call without arguments.

    `ItemAdded` follows if the response is in the conversation; `ItemDone` comes before `OutputItemDone`.
    """

    response_id: str
    output_index: int
    item: Item


@dataclass(frozen=True)
class OutputItemDone(SessionEvent):
    response_id: str
    output_index: int
    item: Item


@dataclass(frozen=True)
class PartPlace:
    """The part of an output item that an event is about. Messages have one part."""

    response_id: str
    item_id: str
    output_index: int
    content_index: int = 0


@dataclass(frozen=True)
class PartAdded(SessionEvent):
    place: PartPlace
    modality: Modality


@dataclass(frozen=True)
class WrittenTextDelta(SessionEvent):
    """New text of a response in text."""

    place: PartPlace
    text: str


@dataclass(frozen=True)
class SpokenTextDelta(SessionEvent):
    """New text of a spoken response, as it is written, so before its sound."""

    place: PartPlace
    text: str


@dataclass(frozen=True, eq=False)
class SoundDelta(SessionEvent):
    """Mono float32 samples at `rate` samples per second."""

    place: PartPlace
    samples: Floats
    rate: int


@dataclass(frozen=True)
class WrittenTextDone(SessionEvent):
    place: PartPlace
    text: str


@dataclass(frozen=True)
class SoundDone(SessionEvent):
    place: PartPlace


@dataclass(frozen=True)
class SpokenTextDone(SessionEvent):
    """The whole written text of a message. The item of an interrupted response has only what was heard."""

    place: PartPlace
    text: str


@dataclass(frozen=True)
class PartDone(SessionEvent):
    place: PartPlace
    part: Part


@dataclass(frozen=True)
class ArgumentsDelta(SessionEvent):
    """New characters of a function call's arguments, which are JSON."""

    response_id: str
    item_id: str
    output_index: int
    call_id: str
    text: str


@dataclass(frozen=True)
class ArgumentsDone(SessionEvent):
    response_id: str
    item_id: str
    output_index: int
    call_id: str
    name: str
    arguments: str


# -- errors -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SessionError(SessionEvent):
    """A rejected command, or a failure of the engine. The session goes on.

    `is_request` is true if the client is at fault. `tag` is that of the command.
    """

    code: str
    message: str
    is_request: bool = True
    param: str | None = None
    tag: str | None = None
