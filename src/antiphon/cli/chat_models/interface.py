"""Interface of models for `run` and `chat`, in this process or on a running server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from antiphon.counted import counted

#: Name of a server's own choice of a chat model.
SERVER_MODEL = "default-chat"


@dataclass(frozen=True)
class AnswerStats:
    """Statistics of an answer. It has a `seed` only if a seed was used and reported."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    time_to_first_token: float
    tokens_per_second: float
    finish_reason: str
    seed: int | None = None
    drafted_tokens: int = 0
    accepted_tokens: int = 0

    def line(self, detail: str = "") -> str:
        """Format the figures in a line, with `detail` after the speed.

        0 prompt tokens mean that they were not reported.
        """
        cached = f" ({self.cached_tokens} cached)" if self.cached_tokens else ""
        prompt = f"{counted(self.prompt_tokens, 'prompt token')}{cached}, " if self.prompt_tokens else ""
        return (
            f"{prompt}first token after {self.time_to_first_token * 1e3:.0f} ms, "
            f"{counted(self.completion_tokens, 'token')} at {self.tokens_per_second:.1f} tok/s"
            f"{drafts_note(self.drafted_tokens, self.accepted_tokens)}{detail}, "
            f"ended by {self.finish_reason}" + ("" if self.seed is None else f", seed {self.seed}")
        )


def drafts_note(drafted: int, accepted: int) -> str:
    """Format the acceptance of drafted tokens, to follow the speed; empty without drafts."""
    return f" ({accepted} of {counted(drafted, 'drafted token')} accepted)" if drafted else ""


class AnswerStream(Protocol):
    """Answer in pieces of text. `stats` is available once the iteration has ended, or after `cancel`."""

    def __iter__(self) -> Iterator[str]: ...

    def cancel(self) -> None:
        """Stop the answer. The iteration then ends; text already generated is still yielded."""
        ...

    def stats(self) -> AnswerStats: ...


class ChatModel(Protocol):
    """Model that continues a conversation.

    `settings` has only values that the user set, under the names of `SamplingParams`: temperature, top_p, top_k, min_p,
    repetition_penalty, presence_penalty, frequency_penalty, seed, max_tokens, stop, speculate. The model's defaults
    fill the rest.
    """

    name: str

    def answer(self, messages: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]) -> AnswerStream: ...
