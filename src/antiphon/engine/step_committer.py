"""`StepCommitter`: what follows from a step's result."""

from __future__ import annotations

from antiphon.engine.beam import BeamGroup, Hypothesis
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.request import FinishReason, Request, RequestState
from antiphon.engine.request_book import RequestBook


class StepCommitter:
    """Advances the requests of a book by the tokens that were drawn, and ends those that are done."""

    def __init__(self, book: RequestBook) -> None:
        self.book = book
        self.kv = book.kv
        self.counters = book.counters
        self.ending = book.ending

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None:
        """Take a step's result in: advance, keep what others may share, end who is done, free what was theirs."""
        size, kv = self.kv.block_tokens, self.kv
        drawn = 0
        searches: list[BeamGroup[Request]] = []
        tokens, logprobs, top = result.tokens, result.logprobs, result.top_logprobs
        for index, request in enumerate(plan.requests):
            count = plan.counts[index]
            request.num_in_flight_tokens -= count
            sampled = plan.samples[index]
            if sampled:
                request.num_pending_samples -= 1
                drawn += 1
            if request.finish_reason is not None:
                if not request.num_in_flight_tokens and self.ending.pop(request.sequence, None) is not None:
                    self.book.forget(request)
                continue
            request.num_computed_tokens += count
            if index in result.probed:
                request.probed = result.probed[index]
            if index in result.observed:
                request.observed[plan.starts[index]] = result.observed[index]
            if result.prompt_logprobs and index in result.prompt_logprobs:
                known = len(request.prompt_logprobs) - plan.starts[index]  # some are, if it was preempted since
                request.prompt_logprobs.extend(result.prompt_logprobs[index][known:])
                request.prompt_top_logprobs.extend(result.prompt_top_logprobs.get(index, ())[known:])
            if request.num_computed_tokens % size < count:
                kv.remember(request)
                kv.drop_out_of_window(request)
            if sampled:
                if result.failures and index in result.failures:
                    self.book.end(request, FinishReason.FAILED, now, result.failures[index])
                    continue
                if request.beam is not None:
                    if request.beam.offer(request, result.candidates[index]):
                        searches.append(request.beam)
                    continue
                token = tokens[drawn - 1]
                request.tokens.append(token)
                request.marks.tokens.append(now)
                if request.rules is not None and result.drawn_logprobs is not None:
                    request.drawn_logprobs.append(result.drawn_logprobs[drawn - 1])
                if logprobs is not None and request.params.logprobs is not None:
                    request.logprobs.append(logprobs[drawn - 1])
                    chosen = top[drawn - 1] if top is not None else None
                    request.top_logprobs.append(chosen or [])
                try:
                    reason = self._ends(request, token)
                except Exception as error:  # of its listener: no fault of the others in the step
                    self.book.end(request, FinishReason.FAILED, now, f"{type(error).__name__}: {error}")
                    continue
                if reason is not None:
                    self.book.end(request, reason, now)
        for search in searches:
            if not search.leader.is_ended:
                self._advance_search(search, now)
        self.counters.decode_tokens += plan.num_decodes
        self.counters.prefill_tokens += plan.num_tokens - plan.num_decodes

    def _advance_search(self, search: BeamGroup[Request], now: float) -> None:
        """Give the hypotheses that go on to the members: the first of a member stays with it, others take the places
        of members that have none."""
        leader = search.leader
        chosen = search.choose()
        leader.marks.tokens.append(now)
        if not chosen and not search.finished:
            self.book.end(leader, FinishReason.FAILED, now, "no hypothesis of the search has a finite probability")
            return
        if not chosen:
            best = search.best()
            leader.tokens = [*leader.prompt, *best.output]
            leader.drawn_logprobs = best.logprobs
            self.book.end(leader, FinishReason.STOP if best.has_end else FinishReason.LENGTH, now)
            return
        staying: dict[int, Hypothesis[Request]] = {}
        moving: list[Hypothesis[Request]] = []
        for hypothesis in chosen:
            if id(hypothesis.parent) in staying:
                moving.append(hypothesis)
            else:
                staying[id(hypothesis.parent)] = hypothesis
        vacant = [member for member in search.members if id(member) not in staying]
        for member, hypothesis in zip(vacant, moving, strict=False):
            self._become(member, hypothesis.parent)
            member.drawn_logprobs.append(hypothesis.logprob)
            member.tokens.append(hypothesis.token)
        for member in vacant[len(moving) :]:  # fewer hypotheses than members: one is followed twice
            first = chosen[0]
            self._become(member, first.parent)
            member.drawn_logprobs.append(float("-inf"))
            member.tokens.append(first.token)
        for hypothesis in staying.values():
            hypothesis.parent.tokens.append(hypothesis.token)
            hypothesis.parent.drawn_logprobs.append(hypothesis.logprob)
        self.book.rewritten += search.members

    def _become(self, member: Request, parent: Request) -> None:
        """Make a member a copy of another: its tokens, and its blocks where it has them."""
        member.tokens, member.drawn_logprobs = list(parent.tokens), list(parent.drawn_logprobs)
        if member.swapped:
            self.book.swap.drop(member)
            member.num_computed_tokens = 0
        if member.row < 0:
            return  # it waits, and will compute what it needs
        self.kv.release(member)
        if self.kv.can_fork(parent, parent.num_computed_tokens) and parent.num_computed_tokens:
            self.kv.fork(parent, member, parent.num_computed_tokens)
            return
        self.book.running.remove(member)
        self.book.free_rows.append(member.row)
        member.row, member.num_computed_tokens, member.state = -1, 0, RequestState.WAITING
        self.book.waiting[member.id] = member

    @staticmethod
    def _ends(request: Request, token: int) -> FinishReason | None:
        if token in request.stop_ids:
            return FinishReason.STOP
        if request.constraint is not None:
            request.constraint.advance(token)
        if request.on_token is not None and request.on_token(token):
            return FinishReason.STOP
        return FinishReason.LENGTH if len(request.tokens) >= request.limit else None

    def fail(self, plan: StepPlan, error: str, now: float) -> None:
        """A step that raised: its requests fail with the cause, everybody else goes on."""
        for request, count, samples in zip(plan.requests, plan.counts, plan.samples, strict=True):
            request.num_in_flight_tokens -= count
            request.num_pending_samples -= samples
            if not request.is_ended:
                self.book.end(request, FinishReason.FAILED, now, error)
            elif not request.num_in_flight_tokens and self.ending.pop(request.sequence, None) is not None:
                self.book.forget(request)
