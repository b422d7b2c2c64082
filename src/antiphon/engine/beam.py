"""`BeamGroup`: requests of one prompt that advance together, the likeliest hypotheses of all of them surviving."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.engine.request import Request


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A member's tokens with one more."""

    parent: Request
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
        """By which finished hypotheses are compared: log-probability by token, the end not counted as one."""
        return sum(self.logprobs) / max(1, len(self.output) - self.has_end)


@dataclass(eq=False)
class BeamGroup:
    """`members` are requests of the same prompt, the first of which stands for all towards the caller.

    Each offers its likeliest next tokens; when all have, `choose` tells which hypotheses go on. The caller gives
    their tokens and blocks to the members.
    """

    width: int
    members: list[Request] = field(default_factory=list)
    finished: list[Finished] = field(default_factory=list)
    _offers: dict[int, list[tuple[int, float]]] = field(default_factory=dict)

    @property
    def leader(self) -> Request:
        return self.members[0]

    def offer(self, member: Request, candidates: list[tuple[int, float]]) -> bool:
        """Take a member's likeliest tokens with their log-probabilities; True if everybody has offered."""
        self._offers[id(member)] = candidates
        return len(self._offers) == len(self.members)

    def choose(self) -> list[Hypothesis]:
        """The hypotheses that go on, at most as many as there are members; those that ended are put aside."""
        # At first all members are the same, so one speaks for all.
        speakers = self.members if self.leader.num_output_tokens else self.members[:1]
        ranked = [
            Hypothesis(member, token, logprob, sum(member.drawn_logprobs) + logprob)
            for member in speakers
            for token, logprob in self._offers[id(member)]
            if logprob > float("-inf")
        ]
        self._offers = {}
        ranked.sort(key=lambda hypothesis: -hypothesis.total)
        going_on: list[Hypothesis] = []
        for hypothesis in ranked:
            if len(going_on) == self.width:
                break
            if hypothesis.token in self.leader.stop_ids:
                self._put_aside(hypothesis, has_end=True)
            elif hypothesis.parent.num_tokens + 1 >= hypothesis.parent.limit:
                self._put_aside(hypothesis, has_end=False)
            else:
                going_on.append(hypothesis)
        return [] if len(self.finished) >= self.width else going_on

    def _put_aside(self, hypothesis: Hypothesis, has_end: bool) -> None:
        parent = hypothesis.parent
        output, logprobs = [*parent.output, hypothesis.token], [*parent.drawn_logprobs, hypothesis.logprob]
        self.finished.append(Finished(output, logprobs, has_end))

    def best(self) -> Finished:
        return max(self.finished, key=lambda finished: finished.score)
