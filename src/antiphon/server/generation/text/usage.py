"""`TokenUsage`: the token counts of one request, which each API writes in its own form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from antiphon.server.web.http.context import LogFields


@dataclass(frozen=True)
class TokenUsage:
    """Token counts of a request. A prompt is counted once, regardless of the number of samples.

    `drafted` tokens were computed ahead, and `accepted` ones of them are in the answer. `timings` are seconds of the
    slowest choice.
    """

    prompt: int
    completion: int
    cached: int = 0
    drafted: int = 0
    accepted: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return self.prompt + self.completion

    def timing_fields(self) -> dict[str, float]:
        """Return the timings, and the drafted tokens under llama.cpp's names."""
        drafts = {"draft_n": self.drafted, "draft_n_accepted": self.accepted} if self.drafted else {}
        return {**self.timings, **drafts}

    def log(self, log_fields: LogFields) -> None:
        log_fields["prompt_tokens"] = self.prompt
        log_fields["completion_tokens"] = self.completion
        log_fields["cached_tokens"] = self.cached
        if self.drafted:
            log_fields["drafted_tokens"] = self.drafted
            log_fields["accepted_tokens"] = self.accepted
