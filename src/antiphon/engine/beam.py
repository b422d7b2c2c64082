"""`BeamGroup`: requests of one beam search, which advance together and keep the most probable hypotheses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class BeamMember(Protocol):
    """Fields of a request that a beam search reads."""

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
    """Tokens of a member with one candidate token appended."""

    parent: Member
    token: int
    logprob: float
    total: float


@dataclass(frozen=True, slots=True)
class Finished:
    """Finished hypothesis: its output tokens, and the log-probability of each."""

    output: list[int]
    logprobs: list[float]
    has_end: bool

    @property
    def score(self) -> float:
        """Mean log-probability per token without the end token, by which finished hypotheses are ranked."""
        return sum(self.logprobs) / max(1, len(self.output) - self.has_end)


@dataclass(eq=False)
class BeamGroup(Generic[Member]):
    """Members of one beam search over one prompt; the caller sees only the first member, the leader.

    Each member offers candidates for its next token. When all members have offered, `choose` returns the hypotheses
    that continue, and the scheduler assigns their tokens and blocks to the members.
    """

    width: int
    members: list[Member] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    _offers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def leader(self) -> Member:
        return self.members[0]

    def offer(self, member: Member, candidates: list[tuple[int, float]]) -> bool:
        """Add a member's candidate tokens with their log-probabilities; return whether every member has offered now."""
        self._offers[id(member)] = candidates
        return len(self._offers) == len(self.members)

    def has_offered(self, member: Member) -> bool:
        return id(member) in self._offers

    def choose(self) -> list[Hypothesis[Member]]:
        """Return the hypotheses that continue, best first; move finished hypotheses to `finished`.

        There are at most `width` of them, and several may share a parent. An empty list ends the search.
        """
        # Before the first token all members are equal: expanding each of them would rank every candidate `width` times.
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
