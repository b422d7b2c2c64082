"""`ResponseRequest`: a client's request for one response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.runtime.voice.items import Item
from antiphon.runtime.voice.settings import VoiceSettings


@dataclass(frozen=True)
class ResponseRequest:
    """A request for a response. `settings` and `items`, if given, replace the session's settings and items.

    A response that is not `in_conversation` adds nothing to the conversation and is not interrupted by speech. Several
    such responses may run at once.
    """

    settings: VoiceSettings | None = None
    items: Sequence[Item] | None = None
    in_conversation: bool = True
    metadata: Mapping[str, str] | None = None
