"""Assignment of a beam search's surviving hypotheses to the requests that are its members."""

from __future__ import annotations

from antiphon.engine.beam import BeamGroup, Hypothesis
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.request import Request
from antiphon.engine.request_queues import RequestQueues


def assign_hypotheses(
    search: BeamGroup[Request], chosen: list[Hypothesis[Request]], queues: RequestQueues, kv: KVManager
) -> None:
    """Give every member a hypothesis: the best of its own, otherwise a further hypothesis of another member."""
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
    for member in vacant[len(moved) :]:  # fewer hypotheses than members: duplicates of the best one, at probability 0
        first = chosen[0]
        _copy_member(first.parent, member, queues, kv)
        member.drawn_logprobs.append(float("-inf"))
        member.tokens.append(first.token)
    for hypothesis in kept.values():
        hypothesis.parent.tokens.append(hypothesis.token)
        hypothesis.parent.drawn_logprobs.append(hypothesis.logprob)


def _copy_member(parent: Request, member: Request, queues: RequestQueues, kv: KVManager) -> None:
    """Copy the parent's tokens to a member, and share the parent's blocks if the member is running."""
    member.tokens, member.drawn_logprobs = list(parent.tokens), list(parent.drawn_logprobs)
    member.digests = []  # the digests belong to the replaced tokens
    if member.swapped:
        queues.swap.drop(member)
        member.num_computed_tokens = 0
    if member.row < 0:
        return  # waiting: the member computes its tokens when it is admitted
    kv.release(member)
    if parent.num_computed_tokens and kv.can_fork(parent, parent.num_computed_tokens):
        kv.fork(parent, member, parent.num_computed_tokens)
        return
    member.num_computed_tokens = 0
    queues.send_back(member)
