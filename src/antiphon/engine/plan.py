"""`StepPlan`: one step of one model, as the executor reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from antiphon.engine.request import Request

#: Stages of a decoder's steps: FILLING fills the cross blocks of an admitted request, DRAFTING drafts tokens with a
#: draft model. All other decoder steps are stage 0.
FILLING, DRAFTING = 1, 2


@dataclass(slots=True)
class BlockCopy:
    """Copy within the arena, for a shared block that is about to be written or a block that is packed."""

    source: int  # table entry
    target: int
    num_bytes: int


@dataclass(slots=True)
class SwapOut:
    """Blocks to copy to host memory under a key."""

    key: str
    spans: list[tuple[int, int]]  # (table entry, bytes)


@dataclass(slots=True)
class SwapIn:
    """Blocks to copy back from host memory, in the order in which they were copied out."""

    key: str
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class RowSetup:
    """Row that is given to a request, with its whole block tables as entries by group."""

    request: Request
    tables: list[list[int]]
    fills_cross: bool = False  # whether its new cross blocks are filled before the forward


@dataclass(slots=True)
class StepPlan:
    """Requests of one step, with the number of tokens that each computes.

    Entry i computes counts[i] tokens of `requests[i]` from position starts[i] on, and samples a new token after them if
    samples[i]. The first `num_decodes` entries compute exactly the newest token, which is in their row. An entry with a
    draft computes the newest token and the draft's, and samples a token after each of them: the samples up to the first
    that differs from the draft belong to the request.

    A plan carries only changes since the last plan: rows newly given to requests, and table entries.
    """

    model: str
    requests: list[Request] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    samples: list[bool] = field(default_factory=list)
    num_decodes: int = 0
    num_tokens: int = 0
    stage: int = 0  # stage of one-shot requests; FILLING or DRAFTING for a decoder
    needs_commit: bool = False  # sampling waits until all earlier steps are committed
    table_updates: list[tuple[int, int, int, int]] = field(default_factory=list)  # row, group, index, entry
    row_setups: list[RowSetup] = field(default_factory=list)  # applied after the updates
    moves: list[BlockCopy | SwapOut | SwapIn] = field(default_factory=list)  # in this order, before the forward
    dropped_keys: list[str] = field(default_factory=list)  # swapped copies to delete
    drafts: dict[int, list[int]] = field(default_factory=dict)  # by entry: tokens that may follow its newest one
    is_late: bool = False  # no step was in flight when it was planned, though the model may have several
    is_awaited: bool = False  # the next plan depends on the sampled tokens
    passes: int = 1  # tokens that a drafting step samples per entry, one after the other

    def add(self, request: Request, count: int, samples: bool) -> None:
        self.requests.append(request)
        self.starts.append(request.num_computed_tokens + request.num_in_flight_tokens)
        self.counts.append(count)
        self.samples.append(samples)
        self.num_tokens += count

    def __bool__(self) -> bool:
        return bool(self.requests)

    def remove(self, request: Request) -> None:
        """Remove a request from the plan.

        Its moves and updates stay: they are harmless, and later ones may depend on them. The setup of its row stays
        too, since the request keeps the row unless it is preempted.
        """
        index = self.requests.index(request)
        self.num_tokens -= self.counts[index]
        for column in (self.requests, self.starts, self.counts, self.samples):
            del column[index]
        if index < self.num_decodes:
            self.num_decodes -= 1

    @property
    def num_answering(self) -> int:
        """Number of entries that compute their request's newest token, with or without a draft."""
        return self.num_decodes + len(self.drafts)

    @property
    def num_drafted_tokens(self) -> int:
        return sum(map(len, self.drafts.values()))

    @property
    def num_prefill_tokens(self) -> int:
        """Number of tokens of requests that are more than one token behind."""
        return self.num_tokens - self.num_answering - self.num_drafted_tokens

    def tokens_of(self, entry: int) -> list[int]:
        """Return the tokens that an entry computes, including its draft.

        A decode's token may be known only to its row.
        """
        start = self.starts[entry]
        tokens = self.requests[entry].tokens[start : start + self.counts[entry]]
        return tokens + self.drafts[entry] if entry in self.drafts else tokens

    @property
    def has_moves(self) -> bool:
        """Whether the executor has work even if no request computes a token."""
        return bool(self.moves or self.dropped_keys or self.table_updates)


@dataclass(slots=True)
class StepResult:
    """Result of a step: for every sampling entry of the plan, in order, a token and the requested extras.

    An entry with a draft has one token per computed token; `kept` tells how many of them belong to the request.
    """

    tokens: list[int]
    # by entry with a draft: number of sampled tokens that belong to the request
    kept: dict[int, int] = field(default_factory=dict)
    outputs: list[Any] | None = None  # one per entry of one-shot requests, after the last stage
    # by entry: tokens and log-probabilities for a beam search
    candidates: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    drawn_logprobs: list[float] | None = None  # under the edited logits, for every sampling entry
    probed: dict[int, float] = field(default_factory=dict)  # by entry: probability of the request's probe
    observed: dict[int, Any] = field(default_factory=dict)  # by entry: cross-attention of its tokens
    logprobs: list[float] | None = None
    top_logprobs: list[list[tuple[int, float]] | None] | None = None
    prompt_logprobs: dict[int, list[float]] = field(default_factory=dict)  # by entry
    prompt_top_logprobs: dict[int, list[list[tuple[int, float]]]] = field(default_factory=dict)
    prompt_ranks: dict[int, list[int]] = field(default_factory=dict)  # by entry; 1 is the most probable token
    # by entry: reason for which the request's own logit edits failed
    failures: dict[int, str] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)  # seconds of build, run and sample
    is_first: bool = False  # first step of its size: it took longer, to compile kernels or capture a graph
    native_seconds: float = 0.0  # seconds of the run inside the native program


class StepHandle(Protocol):
    """Handle of a launched step, which may still be running."""

    def choose(self) -> None:
        """Start sampling the step's tokens; called once, before the model's next step is submitted.

        If the plan `needs_commit`, all earlier steps are committed by then, so that masks and minimum lengths reflect
        the last token. It does nothing if `submit` has already sampled.
        """

    def done(self) -> bool:
        """Return whether `result` would return without waiting."""

    def result(self) -> StepResult:
        """Wait for the step and return its result. Raises the step's error."""


class Executor(Protocol):
    """Executor of one model's plans, in the order in which they are submitted."""

    def submit(self, plan: StepPlan) -> StepHandle:
        """Launch a step. Its moves, table updates and row setups come first and remain even if the forward fails."""

    def close(self) -> None: ...
