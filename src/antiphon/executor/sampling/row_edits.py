"""`RowEdits`: the logit edits of one request, and the edits in force for its next token."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.engine.request import Request
from antiphon.executor.sampling.transcript_spans import Span, transcript_span

Ids = NDArray[np.int32]
NO_IDS: Ids = np.zeros(0, dtype=np.int32)
NO_VALUES: NDArray[np.float32] = np.zeros(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class FixedEdits:
    """Edits of a row that stay the same for many tokens; compared by identity: a new object means changed edits."""

    allowed: Ids = field(default_factory=lambda: NO_IDS)
    banned: Ids = field(default_factory=lambda: NO_IDS)
    bias_ids: Ids = field(default_factory=lambda: NO_IDS)
    bias: NDArray[np.float32] = field(default_factory=lambda: NO_VALUES)
    penalties: tuple[float, float, float] | None = None
    typical: tuple[float, float] | None = None


def row_edits(request: Request, vocab_size: int) -> RowEdits | None:
    if request.constraint is None and request.rules is None and not request.params.edits_logits:
        return None
    return RowEdits(request, vocab_size)


class RowEdits:
    """Logit edits of one request. `fixed` raises `ValueError` if they name tokens outside the vocabulary.

    Methods take drafted tokens between the request's own tokens and the next one as `ahead`.
    """

    def __init__(self, request: Request, vocab_size: int) -> None:
        self.request = request
        self.slot = -1  # slot of its token counts; -1 without penalties
        self._vocab_size = vocab_size
        self._made: dict[tuple[int, bool, bool], FixedEdits] = {}

    @property
    def counts_tokens(self) -> bool:
        return self.request.params.has_penalties

    def _opening(self, num_ahead: int = 0) -> int:
        """Return the index of the next token in the transcript's opening; -1 after it, or without one."""
        request = self.request
        position = request.num_output_tokens + num_ahead
        return -1 if request.rules is None or position >= len(request.rules.opening) else position

    def mask(self) -> NDArray[Any] | None:
        """Return the grammar's mask for the next token; None without a mask. The grammar's errors propagate."""
        constraint = self.request.constraint
        if constraint is None or self.request.is_ended or self._opening() >= 0:
            return None
        found: NDArray[Any] | None = constraint.mask()
        return found

    def draft_masks(self, count: int) -> Sequence[NDArray[Any] | None]:
        """Return the grammar's masks for the tokens after each of the draft's `count` tokens."""
        constraint = self.request.constraint
        return [None] * count if constraint is None or self.request.is_ended else constraint.draft_masks()

    def span(self, ahead: Sequence[int] = ()) -> Span | None:
        """Return the span of tokens that a transcript's rules allow next; None if no rules apply."""
        request = self.request
        if request.rules is None or self._opening(len(ahead)) >= 0:
            return None
        tokens = [*request.tokens, *ahead] if ahead else request.tokens
        return transcript_span(request.rules, tokens, self._vocab_size)

    def fixed(self, num_ahead: int = 0) -> FixedEdits:
        """Return the other edits for the next token: allowed and banned tokens, bias, penalties, typical sampling."""
        request = self.request
        opening = self._opening(num_ahead)
        rules = request.rules
        is_blank = rules is not None and len(request.tokens) + num_ahead == rules.begin
        key = opening, is_blank, request.num_output_tokens + num_ahead < request.params.min_tokens
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = self._make(*key)
        return found

    def _make(self, opening: int, is_blank: bool, is_short: bool) -> FixedEdits:
        params, rules = self.request.params, self.request.rules
        if opening >= 0:
            assert rules is not None
            return FixedEdits(allowed=self._ids(rules.opening[opening]))
        banned = params.banned_tokens | (rules.blank if rules is not None and is_blank else frozenset())
        bias = dict(params.logit_bias)
        if is_short:
            bias |= dict.fromkeys(self.request.stop_ids, float("-inf"))
        penalties = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
        return FixedEdits(
            self._ids(params.allowed_tokens or ()),
            self._ids(banned),
            self._ids(bias),
            np.fromiter((bias[token] for token in sorted(bias)), dtype=np.float32, count=len(bias)),
            penalties if params.has_penalties else None,
            (params.typical_p, params.temperature) if params.typical_p < 1 and params.temperature > 0 else None,
        )

    def _ids(self, tokens: Collection[int]) -> Ids:
        ordered = sorted(set(tokens))
        if ordered and not 0 <= ordered[0] <= ordered[-1] < self._vocab_size:
            wrong = ordered[0] if ordered[0] < 0 else ordered[-1]
            raise ValueError(f"token {wrong} is outside the vocabulary of {self._vocab_size} tokens")
        return np.asarray(ordered, dtype=np.int32)
