"""A step of a beam search: the hypotheses that continue are given to the requests that are its members."""

from __future__ import annotations

from antiphon.engine.beam import BeamGroup, Hypothesis
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.request import Request
from antiphon.engine.request_queues import RequestQueues


def assign_hypotheses(
    search: BeamGroup[Request], chosen: list[Hypothesis[Request]], queues: RequestQueues, kv: KVManager
) -> None:
    """Give every member a hypothesis: its own best one, else one of those that another member has besides its best."""
    kept: dict[int, Hypothesis[Request]] = {}
    moved: list[Hypothesis[Request]] = []
    for hypothesis in chosen:
        if id(hypothesis.parent) in kept:
            moved.append(hypothesis)
        else:
            kept[id(hypothesis.parent)] = hypothesis
    vacant = [member for member in search.members if id(member) not in kept]
    for member, hypothesis in zip(vacant, moved, strict=False):
        _copy_member(hypothesis.parent, member, queues, kv)
        member.drawn_logprobs.append(hypothesis.logprob)
        member.tokens.append(hypothesis.token)
    for member in vacant[len(moved) :]:  # fewer hypotheses than members: the best is computed twice
        first = chosen[0]
        _copy_member(first.parent, member, queues, kv)
        member.drawn_logprobs.append(float("-inf"))
        member.tokens.append(first.token)
    for hypothesis in kept.values():
        hypothesis.parent.tokens.append(hypothesis.token)
        hypothesis.parent.drawn_logprobs.append(hypothesis.logprob)


def _copy_member(parent: Request, member: Request, queues: RequestQueues, kv: KVManager) -> None:
    """Make a member a copy of another: its tokens, and its blocks where it has them."""
    member.tokens, member.drawn_logprobs = list(parent.tokens), list(parent.drawn_logprobs)
    member.digests = []  # they were of its own tokens
    if member.swapped:
        queues.swap.drop(member)
        member.num_computed_tokens = 0
    if member.row < 0:
        return  # it is waiting, and computes what it needs when it is admitted
    kv.release(member)
    if parent.num_computed_tokens and kv.can_fork(parent, parent.num_computed_tokens):
        kv.fork(parent, member, parent.num_computed_tokens)
        return
    member.num_computed_tokens = 0
    queues.send_back(member)
