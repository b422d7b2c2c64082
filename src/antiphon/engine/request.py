"""`Request`: one unit of work from arrival to end, with the times of its events."""

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
    """Priority of a request under the policies `priority` and `adaptive`. Lower values go first."""

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
    """Reason for which a request ended; only STOP and LENGTH are successful."""

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
    """Grammar of a structured request. Masks are computed outside the loop; `mask` waits for the current one."""

    def advance(self, token: int) -> None:
        """Advance by a token that was sampled under the last mask."""

    def mask(self) -> Any:
        """Return the allowed tokens as packed bits, or None if all are allowed."""

    def forced(self) -> Sequence[int]:
        """Return tokens that spell the only possible continuation."""

    def num_allowed(self, tokens: Sequence[int]) -> int:
        """Return the length of the longest prefix of these tokens that the grammar allows."""

    def draft(self, tokens: Sequence[int]) -> None:
        """Start computing the masks after each of these allowed tokens, without advancing."""

    def draft_masks(self) -> Sequence[Any]:
        """Return the masks after each token of the last draft."""


@dataclass(slots=True)
class TimeMarks:
    """Times of a request's events, in seconds of the engine's clock; 0.0 for events that have not happened yet."""

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
    """Request that grows token by token.

    It has `num_tokens` tokens, of which `num_computed_tokens` are in the cache; each step computes more. Tokens that a
    step in flight computes or samples are counted separately until the step is committed.
    """

    id: str
    model: str
    prompt: Sequence[int]
    params: SamplingParams
    task: str = "generate"
    priority: Priority = Priority.NORMAL
    deadline: float | None = None
    #: Engine time at which the result is needed, for a listener that still has sound to play; None for at once.
    due: float | None = None
    cache_salt: str = ""
    constraint: Constraint | None = None
    #: Callback for every output token; returning True ends the request, as when a stop string is complete.
    on_token: Callable[[int], bool] | None = None
    #: Callback with the request, called once after its end.
    on_end: Callable[[Request], None] | None = None
    #: Request whose blocks this one starts from, for several samples of one prompt.
    fork_of: Request | None = None
    cross_tokens: int = 0
    #: Input of a one-shot request, or encoder states that fill a request's cross blocks.
    inputs: Any = None
    #: Digest of the inputs of keys and values other than tokens. Cross blocks are shared only if it is set.
    content: bytes = b""
    #: Slot of the request's adapter, or -1; `content` identifies the adapter.
    adapter: int = -1
    rules: TranscriptRules | None = None
    #: Beam search of which the request is a hypothesis.
    beam: BeamGroup[Request] | None = None
    #: Position in the prompt and a token, whose probability there is reported.
    probe: tuple[int, int] | None = None
    #: Whether the cross-attention of the prompt's tokens is reported.
    observes: bool = False
    #: With `prompt_logprobs`: callback of the executor with the first position of a computed chunk of the prompt, and
    #: rows of log-probabilities of all tokens from there on. It may be called twice for a position.
    on_distributions: Callable[[int, Any], None] | None = None
    #: Tokens that end the request when they are sampled.
    stop_ids: frozenset[int] = frozenset()
    #: Whether tokens are drafted for the request, whether a draft model may draft them, and the expected output.
    speculates: bool = False
    uses_draft_model: bool = False
    guess: Sequence[int] = ()

    state: RequestState = RequestState.WAITING
    finish_reason: FinishReason | None = None
    error: str | None = None
    marks: TimeMarks = field(default_factory=TimeMarks)

    tokens: list[int] = field(default_factory=list)  # prompt, then output
    num_computed_tokens: int = 0
    num_in_flight_tokens: int = 0
    num_pending_samples: int = 0
    num_cached_tokens: int = 0
    row: int = -1

    # Maintained by the KV manager.
    tables: list[list[int]] = field(default_factory=list)  # block ids by group
    digests: list[bytes] = field(default_factory=list)
    num_remembered_blocks: int = 0
    num_dropped_blocks: list[int] = field(default_factory=list)  # by group, from the front of the window
    has_shared_tail: bool = False
    swapped: bool = False
    cross_filled: bool = False  # true as soon as a plan that fills the cross blocks is made

    drafting: Drafting | None = None  # set when a draft is first considered

    # Results for the caller.
    drafted: DraftCounts = field(default_factory=DraftCounts)
    result: Any = None  # output of a one-shot request; between stages, input of the next stage
    stage: int = 0  # stages that a one-shot request has completed
    logprobs: list[float] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    drawn_logprobs: list[float] = field(default_factory=list)  # after all logit edits, for a request with rules
    probed: float | None = None
    observed: dict[int, Any] = field(default_factory=dict)  # position of the first token → [heads, tokens, states]
    prompt_logprobs: list[float] = field(default_factory=list)
    prompt_top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    prompt_ranks: list[int] = field(default_factory=list)
    sequence: int = 0  # order of arrival
    limit: int = 0  # maximum tokens of the request, including its prompt

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
        """Whether the prompt is computed in full, without the prefix cache, because it is reported on."""
        return self.params.prompt_logprobs or self.probe is not None or self.observes

    @property
    def num_output_tokens(self) -> int:
        return len(self.tokens) - len(self.prompt)

    @property
    def output(self) -> list[int]:
        return self.tokens[len(self.prompt) :]

    @property
    def num_scheduled_tokens(self) -> int:
        """Number of tokens that are computed, or are being computed by a step in flight."""
        return self.num_computed_tokens + self.num_in_flight_tokens

    @property
    def num_behind(self) -> int:
        """Number of tokens not yet given to a step, including a token that is being sampled."""
        return len(self.tokens) + self.num_pending_samples - self.num_computed_tokens - self.num_in_flight_tokens

    @property
    def needs_last_token(self) -> bool:
        """Whether a token can be sampled only after the token before it is committed.

        Beam searches, grammars, transcript rules and minimum lengths read the committed tokens. Penalties do not: the
        sampler counts tokens as it samples them. Only a beam search needs the committed tokens for the forward pass
        too.
        """
        return (
            self.beam is not None
            or self.constraint is not None
            or self.rules is not None
            or self.num_output_tokens < self.params.min_tokens
        )

    @property
    def may_draft(self) -> bool:
        """Whether a draft can follow the newest token, which must be known."""
        return not self.num_pending_samples and self.is_one_line

    @property
    def is_one_line(self) -> bool:
        """Whether the request is a single sequence of which steps return only sampled tokens."""
        return self.beam is None and not self.observes

    @property
    def is_ended(self) -> bool:
        return self.finish_reason is not None
