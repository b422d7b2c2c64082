"""`StepPlan`: what one step of one model does, as the executor reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from antiphon.engine.request import Request

#: The stages of a decoder's steps that fill an admitted request's cross blocks, and of those in which a draft model
#: drafts tokens; all its other steps are stage 0.
FILLING, DRAFTING = 1, 2


@dataclass(slots=True)
class BlockCopy:
    """Bytes to copy within the arena: a block that is about to be written and is shared."""

    source: int  # table entry
    target: int
    num_bytes: int


@dataclass(slots=True)
class SwapOut:
    """Blocks to copy to host memory, under a key."""

    key: str
    spans: list[tuple[int, int]]  # (table entry, bytes)


@dataclass(slots=True)
class SwapIn:
    """Blocks to copy back from host memory, in the order in which they were copied out."""

    key: str
    spans: list[tuple[int, int]]


@dataclass(slots=True)
class RowSetup:
    """A row that is given to a request: its whole block tables, as entries by group."""

    request: Request
    tables: list[list[int]]
    fills_cross: bool = False  # its cross blocks are new and are filled before the forward


@dataclass(slots=True)
class StepPlan:
    """Requests of one model with how many tokens each computes.

    Entry i gives `requests[i]` the tokens at positions starts[i] to starts[i] + counts[i], and draws a new token after
    them if samples[i]. The first `num_decodes` entries compute exactly the newest token, which is in their row.
    An entry with a draft computes the newest token and the draft's, and draws a token after each of them: those up to
    the first that differs from the draft are the request's.
    A plan carries only what changed since the last one: rows newly given to a request, and table entries.
    """

    model: str
    requests: list[Request] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    samples: list[bool] = field(default_factory=list)
    num_decodes: int = 0
    num_tokens: int = 0
    stage: int = 0  # of one-shot requests; FILLING for a step that fills cross blocks
    needs_commit: bool = False  # tokens can be drawn only after all steps in flight before it are committed
    table_updates: list[tuple[int, int, int, int]] = field(default_factory=list)  # row, group, index, entry
    row_setups: list[RowSetup] = field(default_factory=list)  # applied after the updates
    moves: list[BlockCopy | SwapOut | SwapIn] = field(default_factory=list)  # in this order, before the forward
    dropped_keys: list[str] = field(default_factory=list)  # swapped copies to delete
    drafts: dict[int, list[int]] = field(default_factory=dict)  # by entry: tokens that may follow its newest one
    is_late: bool = False  # no step was in flight when it was planned, though the model may have several
    is_awaited: bool = False  # the next step is planned with what it draws
    passes: int = 1  # of a drafting step: the tokens that are drawn for each entry, one after the other

    def add(self, request: Request, count: int, samples: bool) -> None:
        self.requests.append(request)
        self.starts.append(request.num_computed_tokens + request.num_in_flight_tokens)
        self.counts.append(count)
        self.samples.append(samples)
        self.num_tokens += count

    def __bool__(self) -> bool:
        return bool(self.requests)

    def remove(self, request: Request) -> None:
        """Take a request out again. Its moves and updates stay: they do no harm, and later ones may depend on them.

        The setup of its row stays too, since it keeps the row unless it is preempted.
        """
        index = self.requests.index(request)
        self.num_tokens -= self.counts[index]
        for column in (self.requests, self.starts, self.counts, self.samples):
            del column[index]
        if index < self.num_decodes:
            self.num_decodes -= 1

    @property
    def num_answering(self) -> int:
        """Entries that compute their request's newest token, with or without a draft."""
        return self.num_decodes + len(self.drafts)

    @property
    def num_drafted_tokens(self) -> int:
        return sum(map(len, self.drafts.values()))

    @property
    def num_prefill_tokens(self) -> int:
        """Tokens of the requests that are farther behind."""
        return self.num_tokens - self.num_answering - self.num_drafted_tokens

    def tokens_of(self, entry: int) -> list[int]:
        """The tokens that an entry computes, its draft included; those of a decode may be in its row only."""
        start = self.starts[entry]
        tokens = self.requests[entry].tokens[start : start + self.counts[entry]]
        return tokens + self.drafts[entry] if entry in self.drafts else tokens

    @property
    def has_moves(self) -> bool:
        """Whether the executor has something to do even if no request computes a token."""
        return bool(self.moves or self.dropped_keys or self.table_updates)


@dataclass(slots=True)
class StepResult:
    """The result of a step: for every sampling entry of the plan, in order, a token and what else was requested.

    An entry with a draft has a token after each of its own, and `kept` says how many of them are the request's.
    """

    tokens: list[int]
    kept: dict[int, int] = field(default_factory=dict)  # by entry with a draft: the drawn tokens that count
    outputs: list[Any] | None = None  # of one-shot requests, one for each entry, after their last stage
    candidates: dict[int, list[tuple[int, float]]] = field(default_factory=dict)  # by entry, of members of a search
    drawn_logprobs: list[float] | None = None  # under the edited logits, for every sampling entry
    probed: dict[int, float] = field(default_factory=dict)  # by entry: the probability that its request's probe reads
    observed: dict[int, Any] = field(default_factory=dict)  # by entry: cross-attention of its tokens
    logprobs: list[float] | None = None
    top_logprobs: list[list[tuple[int, float]] | None] | None = None
    prompt_logprobs: dict[int, list[float]] = field(default_factory=dict)  # by entry
    prompt_top_logprobs: dict[int, list[list[tuple[int, float]]]] = field(default_factory=dict)
    prompt_ranks: dict[int, list[int]] = field(default_factory=dict)  # by entry; 1 is the likeliest token
    failures: dict[int, str] = field(default_factory=dict)  # by entry: requests whose own edits failed, and why
    timings: dict[str, float] = field(default_factory=dict)  # build, run, sample: seconds
    is_first: bool = False  # of its size, so that kernels were compiled or a graph was captured: it took longer
    native_seconds: float = 0.0  # of the run: in the native program, where the forward is one


class StepHandle(Protocol):
    """A step that was launched; it may still be running."""

    def choose(self) -> None:
        """Draw the step's tokens. Called once, before the next step of the model is submitted.

        Of a plan that needs it, the steps before are committed by then, so that masks and minimum lengths are read as
        they are after the last token. It does nothing where `submit` has drawn the tokens.
        """

    def done(self) -> bool:
        """Whether `result` would return without waiting."""

    def result(self) -> StepResult:
        """Wait for the tokens. Raises what the step raised."""


class Executor(Protocol):
    """Runs the plans of one model, in the order in which they are submitted."""

    def submit(self, plan: StepPlan) -> StepHandle:
        """Launch a step. Its moves, table updates and row setups come first and stay even if the forward fails."""

    def close(self) -> None: ...
