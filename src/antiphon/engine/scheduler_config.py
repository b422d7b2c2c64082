"""Limits and counters of one model's scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from antiphon.engine.speculation.drafting import DraftCounts
from antiphon.errors import InvalidRequestError


class Preemption(StrEnum):
    RECOMPUTE = "recompute"  # blocks are freed; the tokens are computed again
    SWAP = "swap"  # blocks are copied to host memory and back, while there is room


@dataclass(frozen=True)
class SchedulerConfig:
    """Limits of one model's steps. `chunk_tokens` of None computes every prompt whole.

    A step computes at most `prompt_logprob_tokens` tokens of prompts with log-probabilities, because it keeps the
    logits of all of them. With `isolates_fills`, a step that fills the cross blocks of a request does nothing else.
    """

    max_running: int = 64
    max_waiting: int = 1024
    max_step_tokens: int = 2048
    chunk_tokens: int | None = 512
    prompt_logprob_tokens: int | None = None
    step_seconds: float | None = None
    preemption: Preemption = Preemption.RECOMPUTE
    swap_bytes: int = 1 << 30
    isolates_fills: bool = True

    def __post_init__(self) -> None:
        for name in ("max_running", "max_waiting", "max_step_tokens"):
            if getattr(self, name) < 1:
                raise InvalidRequestError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        for name in ("chunk_tokens", "prompt_logprob_tokens"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InvalidRequestError(f"{name} is {getattr(self, name)}; it must be 1 or more, or None")


@dataclass(slots=True)
class SchedulerCounters:
    preemptions: int = 0
    swaps_out: int = 0
    swaps_in: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    cached_tokens: int = 0
    drafts: DraftCounts = field(default_factory=DraftCounts)
