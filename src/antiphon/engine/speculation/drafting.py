"""`Drafting`: the drafts of one request, with their acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.engine.speculation.acceptance import DRAWN, FORCED, Acceptance, kind_of
from antiphon.engine.speculation.ngrams import NgramIndex

#: Upper bound of a token's acceptance probability, before it is divided by one plus the recent failures of that token.
FIRST_DOUBT = 0.7
#: Initial probability that a draft is not followed by another, and the rate at which it is learnt.
FIRST_ALONE, ALONE_RATE = 0.5, 0.2


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may come next, and the probability that each is accepted together with all before it."""

    tokens: list[int]
    probabilities: list[float]
    alone: float = 0.0  # probability that the step after the one that verifies it has no draft


@dataclass(slots=True)
class DraftCounts:
    """Counts of drafted tokens that were computed, and of those that were accepted."""

    proposed: int = 0
    accepted: int = 0
    #: Per draft index: number of drafts with a token there, and with that token accepted.
    proposed_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)

    def add(self, proposed: int, accepted: int) -> None:
        self.proposed += proposed
        self.accepted += accepted
        if proposed > len(self.proposed_at):
            missing = [0] * (proposed - len(self.proposed_at))
            self.proposed_at += missing
            self.accepted_at += missing
        for index in range(proposed):
            self.proposed_at[index] += 1
            self.accepted_at[index] += index < accepted


class Drafting:
    """Search for a request's next tokens.

    Every sampled token shows whether the last search was right, so that the acceptance rate is learnt without computing
    any draft.
    """

    def __init__(self, tokens: Sequence[int], guess: Sequence[int], model: Acceptance) -> None:
        self._index = NgramIndex(tokens, guess)
        self._acceptance = Acceptance(model)
        self._doubts: dict[int, int] = {}  # failures of a token since it was last right
        self._forced: list[int] = []  # forced by the grammar, not sampled yet
        self._drawn: list[int] = []  # drafted by a draft model, not sampled by the request yet
        self._is_drafted = False  # whether the last planned step has a draft
        self.alone = FIRST_ALONE

    @property
    def has_drawn(self) -> bool:
        """Whether a draft model's tokens are waiting to be verified."""
        return bool(self._drawn)

    def take(self, tokens: Sequence[int]) -> None:
        """Take the tokens that a draft model has drafted after the newest token."""
        self._drawn = list(tokens)

    def probability_drawn(self) -> float:
        """Return the probability that a token of the draft model is accepted."""
        return self._acceptance.probability(DRAWN)

    def append(self, token: int) -> None:
        index = self._index
        if self._drawn:
            is_hit = self._drawn[0] == token
            self._acceptance.observe(DRAWN, is_hit)
            self._drawn = self._drawn[1:] if is_hit else []
        if self._forced:
            is_hit = self._forced[0] == token
            self._acceptance.observe(FORCED, is_hit)
            self._forced = self._forced[1:] if is_hit else []
        elif (expected := index.expected) >= 0:
            is_hit = expected == token
            self._acceptance.observe(kind_of(index.length, index.has_returned), is_hit)
            if not is_hit:
                self._doubts[expected] = self._doubts.get(expected, 0) + 1
            else:
                self._doubts.pop(expected, None)
        index.append(token)

    def plan(self, is_drafted: bool) -> None:
        """Record that a step is planned, with a draft or without."""
        if self._is_drafted:
            self.alone += ALONE_RATE * ((not is_drafted) - self.alone)
        self._is_drafted = is_drafted

    def propose(self, count: int, forced: Sequence[int] = ()) -> Draft:
        """Propose up to `count` tokens: forced by the grammar, then by the longest match of n-grams.

        Tokens of a draft model replace both.
        """
        self._forced = [] if self._drawn else list(forced[:count])
        if self._drawn:
            own = self.probability_drawn()
            return Draft(self._drawn[:count], [own ** (index + 1) for index in range(min(count, len(self._drawn)))])
        found, length = self._index.follow(count - len(self._forced), self._forced)
        has_returned = self._index.has_returned
        kinds = [FORCED] * len(self._forced) + [kind_of(length + index, has_returned) for index in range(len(found))]
        tokens = [*self._forced, *found]
        probability, probabilities = 1.0, []
        for kind, token in zip(kinds, tokens, strict=True):
            own = self._acceptance.probability(kind)
            if token in self._doubts and kind != FORCED:
                own = min(own, FIRST_DOUBT / (1 + self._doubts[token]))
            probability *= own
            probabilities.append(probability)
        return Draft(tokens, probabilities)
