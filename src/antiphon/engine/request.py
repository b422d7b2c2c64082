"""`Request`: one piece of work from arrival to end, with the times of its events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from antiphon.engine.beam import BeamGroup
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.drafting import DraftCounts, Drafting
from antiphon.engine.transcript_rules import TranscriptRules


class Priority(IntEnum):
    """Which requests are computed first, with the policies `priority` and `adaptive`. Lower goes first."""

    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    #: Background work, such as batches.
    LOW = 3


class RequestState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    ABORTED = "aborted"
    FAILED = "failed"


class FinishReason(StrEnum):
    """Why a request ended; only the first two are successful."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    DISCONNECTED = "disconnected"
    DEADLINE = "deadline"
    FAILED = "failed"

    @property
    def state(self) -> RequestState:
        if self in (FinishReason.STOP, FinishReason.LENGTH):
            return RequestState.FINISHED
        return RequestState.FAILED if self is FinishReason.FAILED else RequestState.ABORTED


class Constraint(Protocol):
    """The grammar of a structured request. Masks are computed outside the loop; `mask` waits for the current one."""

    def advance(self, token: int) -> None:
        """Advance by a token that was drawn under the last mask."""

    def mask(self) -> Any:
        """Allowed tokens as packed bits, or None when all are allowed."""

    def forced(self) -> Sequence[int]:
        """Tokens that spell what must come next."""

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """How many of these tokens may come next, one after the other."""

    def draft(self, tokens: Sequence[int]) -> None:
        """Begin to compute the masks after each of these tokens, which are allowed; nothing advances."""

    def draft_masks(self) -> Sequence[Any]:
        """The masks after each token of the last draft."""


@dataclass(slots=True)
class TimeMarks:
    """Seconds of the engine's clock; 0.0 for what has not happened yet."""

    arrived: float = 0.0
    first_scheduled: float = 0.0
    tokens: list[float] = field(default_factory=list)
    finished: float = 0.0
    preemptions: int = 0

    @property
    def queue_wait(self) -> float:
        return max(0.0, self.first_scheduled - self.arrived) if self.first_scheduled else 0.0

    @property
    def time_to_first_token(self) -> float:
        return self.tokens[0] - self.arrived if self.tokens else 0.0

    @property
    def inter_token_gaps(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.tokens, self.tokens[1:], strict=False)]

    @property
    def time_per_output_token(self) -> float:
        count = len(self.tokens) - 1
        return (self.tokens[-1] - self.tokens[0]) / count if count > 0 else 0.0

    @property
    def end_to_end(self) -> float:
        return max(0.0, self.finished - self.arrived) if self.finished else 0.0


@dataclass(slots=True, eq=False)
class Request:
    """A request that grows token by token.

    It has `num_tokens` tokens, `num_computed_tokens` of them in the cache; each step computes more. Tokens that a step
    in flight computes or draws are counted separately until the step is committed.
    """

    id: str
    model: str
    prompt: Sequence[int]
    params: SamplingParams
    task: str = "generate"
    priority: Priority = Priority.NORMAL
    deadline: float | None = None
    #: When the result is needed, if later than at once: a listener still has sound to play.
    due: float | None = None
    cache_salt: str = ""
    constraint: Constraint | None = None
    #: Called with every token of the output; True ends the request (a stop string was completed).
    on_token: Callable[[int], bool] | None = None
    #: Called once, after the end, with the request.
    on_end: Callable[[Request], None] | None = None
    #: The request whose blocks this one starts from, as one of `n` samples of a prompt.
    fork_of: Request | None = None
    cross_tokens: int = 0
    #: What a one-shot request computes on, or the states that a request's cross blocks are filled from.
    inputs: Any = None
    #: A digest of what keys and values depend on besides the tokens; with cross blocks, nothing is shared without it.
    content: bytes = b""
    #: The slot of the adapter that the request's tokens are computed with, or -1; `content` names the adapter.
    adapter: int = -1
    rules: TranscriptRules | None = None
    #: The search that the request is a hypothesis of.
    beam: BeamGroup[Request] | None = None
    #: A position of the prompt and the token whose probability there is to be reported.
    probe: tuple[int, int] | None = None
    #: Whether the cross-attention of the prompt's tokens is to be reported.
    observes: bool = False
    #: With `prompt_logprobs`: called by the executor with a position and, from there on, a row of the log-probabilities
    #: of all tokens for each position of the prompt that a step has computed. It may be called twice for a position.
    on_distributions: Callable[[int, Any], None] | None = None
    #: Tokens that end the request when drawn.
    stop_ids: frozenset[int] = frozenset()
    #: Whether tokens are drafted for it, also by a draft model, and what its output may be, as a first draft.
    speculates: bool = False
    uses_draft_model: bool = False
    guess: Sequence[int] = ()

    state: RequestState = RequestState.WAITING
    finish_reason: FinishReason | None = None
    error: str | None = None
    marks: TimeMarks = field(default_factory=TimeMarks)

    tokens: list[int] = field(default_factory=list)  # the prompt, then the output
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    num_pending_samples: int = 0
    num_cached_tokens: int = 0
    row: int = -1

    # Kept by the KV manager.
    tables: list[list[int]] = field(default_factory=list)  # block ids by group
    digests: list[bytes] = field(default_factory=list)
    num_remembered_blocks: int = 0
    num_dropped_blocks: list[int] = field(default_factory=list)  # by group, from the front of the window
    has_shared_tail: bool = False
    swapped: bool = False
    cross_filled: bool = False  # or about to be, by the plan that sets the row up

    drafting: Drafting | None = None  # once it was first considered for a draft

    # Kept for the caller.
    drafted: DraftCounts = field(default_factory=DraftCounts)
    result: Any = None  # of a one-shot request; between its stages, what the next one starts from
    stage: int = 0  # stages done, of a one-shot request
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    drawn_logprobs: list[float] = field(default_factory=list)  # after all edits, of a request with rules
    probed: float | None = None
    observed: dict[int, Any] = field(default_factory=dict)  # position of the first token → [heads, tokens, states]
    prompt_logprobs: list[float] = field(default_factory=list)
    prompt_top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    prompt_ranks: list[int] = field(default_factory=list)
    sequence: int = 0  # order of arrival
    limit: int = 0  # the most tokens that the request may have, its prompt included

    def __post_init__(self) -> None:
        self.tokens = list(self.prompt)

    def end(self, reason: FinishReason, now: float, error: str | None = None) -> None:
        self.finish_reason, self.state, self.error = reason, reason.state, error
        self.marks.finished = now

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def reads_whole_prompt(self) -> bool:
        """Whether the prompt must be computed in full because something of it is reported."""
        return self.params.prompt_logprobs or self.probe is not None or self.observes

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - len(self.prompt)

    @property
    def output(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    @property
    def num_scheduled_tokens(self) -> int:
        """Computed, or being computed by a step in flight."""
        return self.num_computed_tokens + self.num_in_flight_tokens

    @property
    def num_behind(self) -> int:
        """Tokens not yet given to a step; a token that is being drawn is included."""
        return len(self.tokens) + self.num_pending_samples - self.num_computed_tokens - self.num_in_flight_tokens

    @property
    def needs_last_token(self) -> bool:
        """Whether a token can be drawn only after the one before it is committed.

        A beam search, a grammar, transcript rules and a minimum length read the committed tokens. Penalties do not:
        the sampler counts tokens as it draws them. Only a beam search needs them for the forward pass too.
        """
        return (
            self.beam is not None
            or self.constraint is not None
            or self.rules is not None
            or self.num_output_tokens < self.params.min_tokens
        )

    @property
    def may_draft(self) -> bool:
        """Whether drafts can follow its newest token: it is known, and the answer is one line of tokens."""
        return not self.num_pending_samples and self.is_one_line

    @property
    def is_one_line(self) -> bool:
        """Whether its tokens follow one another, and nothing is read of a step but what it draws."""
        return self.beam is None and not self.observes

    @property
    def is_ended(self) -> bool:
        return self.finish_reason is not None
