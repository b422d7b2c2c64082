"""`ResponseRequest`: what a client asks of one response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.settings import VoiceSettings


@dataclass(frozen=True)
class ResponseRequest:
    """`settings` are those of this response (the session's if None). `items` replace the conversation as its input.

    A response that is not `in_conversation` adds nothing to it and is not interrupted by speech. Several may run at
    once.
    """

    settings: VoiceSettings | None = None
    items: Sequence[Item] | None = None
    in_conversation: bool = True
    metadata: Mapping[str, str] | None = None
