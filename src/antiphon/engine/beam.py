"""`BeamGroup`: requests of one prompt that advance together, the likeliest hypotheses of all of them surviving."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class BeamMember(Protocol):
    """What a search reads of its members; they are requests."""

    tokens: list[int]
    drawn_logprobs: list[float]
    limit: int

    @property
    def stop_ids(self) -> Collection[int]: ...

    @property
    def num_output_tokens(self) -> int: ...

    @property
    def output(self) -> list[int]: ...


Member = TypeVar("Member", bound=BeamMember)


@dataclass(frozen=True, slots=True)
class Hypothesis(Generic[Member]):
    """A member's tokens with one more."""

    parent: Member
    token: int
    logprob: float
    total: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A hypothesis that has ended: its output and the log-probability of each of its tokens."""

    output: list[int]
    logprobs: list[float]
    has_end: bool

    @property
    def score(self) -> float:
        """The score that ranks finished hypotheses: mean log-probability of a token, the end token not counted."""
        return sum(self.logprobs) / max(1, len(self.output) - self.has_end)


@dataclass(eq=False)
class BeamGroup(Generic[Member]):
    """`members` have the same prompt; the caller sees the first of them, the leader.

    Each offers its likeliest next tokens. When all have, `choose` returns the hypotheses that continue; the scheduler
    gives their tokens and blocks to the members.
    """

    width: int
    members: list[Member] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    _offers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def leader(self) -> Member:
        return self.members[0]

    def offer(self, member: Member, candidates: list[tuple[int, float]]) -> bool:
        """Add a member's likeliest tokens with their log-probabilities; True once every member has offered."""
        self._offers[id(member)] = candidates
        return len(self._offers) == len(self.members)

    def has_offered(self, member: Member) -> bool:
        """Whether the member waits for the others' candidates."""
        return id(member) in self._offers

    def choose(self) -> list[Hypothesis[Member]]:
        """The hypotheses that continue, at most one per member; those that ended are added to `finished`.

        An empty list ends the search.
        """
        # Before the first token all members are the same, so one is enough.
        parents = self.members if self.leader.num_output_tokens else self.members[:1]
        ranked = [
            Hypothesis(member, token, logprob, sum(member.drawn_logprobs) + logprob)
            for member in parents
            for token, logprob in self._offers[id(member)]
            if logprob > float("-inf")
        ]
        self._offers = {}
        ranked.sort(key=lambda hypothesis: -hypothesis.total)
        continuing: list[Hypothesis[Member]] = []
        for hypothesis in ranked:
            if len(continuing) == self.width:
                break
            if hypothesis.token in self.leader.stop_ids:
                self._finish(hypothesis, has_end=True)
            elif len(hypothesis.parent.tokens) + 1 >= hypothesis.parent.limit:
                self._finish(hypothesis, has_end=False)
            else:
                continuing.append(hypothesis)
        return [] if len(self.finished) >= self.width else continuing

    def _finish(self, hypothesis: Hypothesis[Member], has_end: bool) -> None:
        parent = hypothesis.parent
        output, logprobs = [*parent.output, hypothesis.token], [*parent.drawn_logprobs, hypothesis.logprob]
        self.finished.append(Finished(output, logprobs, has_end))

    def best(self) -> Finished:
        return max(self.finished, key=lambda finished: finished.score)
