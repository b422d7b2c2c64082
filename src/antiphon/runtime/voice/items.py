"""Items of a conversation: messages, function calls and their outputs. They never change; new ones replace them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from antiphon.audio.samples import Floats


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


class ItemStatus(StrEnum):
    """Status of an item. `INCOMPLETE`: its response was interrupted, failed or reached its token limit."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True)
class TextPart:
    text: str


@dataclass(frozen=True, eq=False)
class SoundPart:
    """Speech. `transcript` stays None until it is known; of an interrupted answer it is the part that was heard.

    `samples` (mono, 16 kHz) is the sound of a message that the client gave; sound of turns and answers is not kept.
    """

    transcript: str | None = None
    seconds: float = 0.0
    samples: Floats | None = None


Part = TextPart | SoundPart


@dataclass(frozen=True)
class Message:
    id: str
    role: Role
    parts: tuple[Part, ...]
    status: ItemStatus = ItemStatus.COMPLETED

    @property
    def text(self) -> str:
        """Written and spoken text of all parts."""
        texts = (part.text if isinstance(part, TextPart) else part.transcript or "" for part in self.parts)
        return "\n".join(text for text in texts if text)


@dataclass(frozen=True)
class FunctionCall:
    """A call that the model makes. `arguments` is JSON, incomplete while the item is in progress."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus = ItemStatus.COMPLETED


@dataclass(frozen=True)
class FunctionOutput:
    """The client's result of a call."""

    id: str
    call_id: str
    output: str
    status: ItemStatus = ItemStatus.COMPLETED


Item = Message | FunctionCall | FunctionOutput


def answers_call(output: FunctionOutput, items: Iterable[Item]) -> bool:
    return any(isinstance(item, FunctionCall) and item.call_id == output.call_id for item in items)


def new_id(kind: str) -> str:
    """Return a new id such as `item_…`, `resp_…`, `call_…`."""
    return f"{kind}_{uuid.uuid4().hex[:24]}"
