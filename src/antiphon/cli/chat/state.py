"""`ChatState`: the conversation so far, and the settings that the user has chosen for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Message = dict[str, str]


@dataclass
class ChatState:
    """Conversation and its settings.

    `settings` has only values that the user set, under the names of `SamplingParams`.
    """

    system: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    shows_stats: bool = False
    renders_markdown: bool = True

    def prompt(self, text: str | None = None) -> list[Message]:
        """Return the system message, the conversation, and `text`, if given, as a new user message."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.messages, *([{"role": "user", "content": text}] if text is not None else [])]

    def add_turn(self, text: str, answer: str) -> None:
        self.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": answer}]

    def without_last_turn(self) -> tuple[ChatState, str] | None:
        """Return the state before the last turn, and the turn's message; None if there is no answered message."""
        if len(self.messages) < 2 or [message["role"] for message in self.messages[-2:]] != ["user", "assistant"]:
            return None
        return replace(self, messages=self.messages[:-2]), self.messages[-2]["content"]

    def take(self, system: str | None, settings: Mapping[str, Any], messages: list[Message]) -> None:
        """Replace the system message, the settings and the messages."""
        self.system, self.settings, self.messages = system, dict(settings), messages
