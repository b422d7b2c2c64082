"""What `run` and `chat` need of a model, whether it runs in this process or in a server that is already running."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class AnswerStats:
    """What one answer cost. `seed` is the one that was used, if the model's side reports it."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    time_to_first_token: float
    tokens_per_second: float
    finish_reason: str
    seed: int | None = None


class AnswerStream(Protocol):
    """An answer in pieces of text. `stats` is available once the iteration has ended, or after `cancel`."""

    def __iter__(self) -> Iterator[str]: ...

    def cancel(self) -> None:
        """Stop the answer. The iteration then ends; text already generated is still yielded."""
        ...

    def stats(self) -> AnswerStats: ...


class ChatModel(Protocol):
    """A model that continues a conversation.

    `settings` has only what the user asked for, under the names of `SamplingParams`: temperature, top_p, top_k, min_p,
    repetition_penalty, presence_penalty, frequency_penalty, seed, max_tokens, stop. The model's defaults fill the rest.
    """

    name: str

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> AnswerStream: ...
