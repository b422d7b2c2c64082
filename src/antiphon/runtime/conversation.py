"""A conversation: messages so far, turned into a prompt by the model's own template."""

from __future__ import annotations

from dataclasses import dataclass, field

from antiphon.runtime.loading import LoadedModel


@dataclass
class Conversation:
    """The history that the next prompt is made from. A base model without a template gets the bare texts."""

    loaded: LoadedModel
    system: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)

    def add_user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def add_assistant(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def reset(self) -> None:
        self.messages.clear()

    def prompt_ids(self) -> list[int]:
        """Token ids of the whole conversation, ready for the assistant's turn."""
        tokenizer = self.loaded.tokenizer
        if self.loaded.chat_template is None:
            texts = [self.system] if self.system else []
            texts += [message["content"] for message in self.messages]
            return tokenizer.encode("\n".join(texts))
        system = [{"role": "system", "content": self.system}] if self.system else []
        return self.loaded.chat_template.prompt(tokenizer, system + self.messages).ids
