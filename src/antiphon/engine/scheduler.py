"""`Scheduler`: one model's requests from arrival to end: admission, step plans and the commit of results."""

from __future__ import annotations

import heapq

from antiphon.engine.beam import BeamGroup
from antiphon.engine.beam_step import assign_hypotheses
from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import DRAFTING, RowSetup, StepPlan, StepResult
from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.request_queues import RequestQueues
from antiphon.engine.scheduler_config import SchedulerConfig, SchedulerCounters
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.step_planner import StepPlanner
from antiphon.errors import ContextLengthError, InvalidRequestError, OverloadedError


class Scheduler:
    """Owner of one model's requests and blocks; pure bookkeeping without tensors.

    `late_choice` means that the executor samples in `StepHandle.choose`, after the commit of the step before.
    """

    def __init__(
        self,
        model: str,
        kv: KVManager,
        policy: Policy,
        config: SchedulerConfig,
        max_model_tokens: int,
        late_choice: bool = False,
        draft_model: DraftModel | None = None,
    ) -> None:
        self.model, self.kv, self.policy, self.config = model, kv, policy, config
        self.max_model_tokens = max_model_tokens
        self.counters = SchedulerCounters()
        self.cost = CostModel()
        self.queues = RequestQueues(policy, config.max_running, config.swap_bytes)
        self.waiting, self.running = self.queues.waiting, self.queues.running
        self.ending: dict[int, Request] = {}  # by order of arrival: ended with a step in flight
        self.deadlines: list[tuple[float, int, str]] = []
        self.draft_model = draft_model
        self._planner = StepPlanner(self.queues, kv, config, self.counters, self.cost, late_choice, draft_model)
        self._rewritten: list[Request] = []  # requests whose row differs from the executor's copy
        self._num_arrivals = 0

    # -- requests -----------------------------------------------------------------------------------------------

    def add(self, request: Request, now: float) -> None:
        """Queue a request; reject one that can never fit, or that finds the queue full."""
        self._check_size(request)
        if len(self.waiting) >= self.config.max_waiting:
            raise OverloadedError(
                f"model {self.model!r} has {len(self.waiting)} requests waiting and {len(self.running)} running; "
                f"at most {self.config.max_waiting} may wait"
            )
        self._num_arrivals += 1
        request.sequence = self._num_arrivals
        request.marks.arrived = now
        self.waiting[request.id] = request
        if request.deadline is not None:
            heapq.heappush(self.deadlines, (request.deadline, request.sequence, request.id))

    def _check_size(self, request: Request) -> None:
        length = request.num_prompt_tokens
        if not length:
            raise InvalidRequestError("the prompt has no tokens")
        if length >= self.max_model_tokens:
            raise ContextLengthError(
                f"prompt has {length} tokens; model {self.model!r} takes {self.max_model_tokens}, the answer included"
            )
        room = self.kv.max_tokens_alone(request.cross_tokens)
        if length > room:
            raise ContextLengthError(
                f"prompt has {length} tokens; the cache of model {self.model!r} holds {room} "
                f"({self.kv.arena.total_bytes} bytes): give it more memory"
            )
        # The last token of an answer is never computed, so it needs no room.
        request.limit = min(length + request.params.max_tokens, self.max_model_tokens, room + 1)
        if request.beam is not None and request.beam.width > self.config.max_running:
            raise InvalidRequestError(
                f"a search of {request.beam.width} beams runs them together; model {self.model!r} runs "
                f"{self.config.max_running} requests at once"
            )

    def abort(self, request_id: str, reason: FinishReason, now: float) -> bool:
        """End a request now; return False if no request has this id.

        Its blocks are freed at once, or when its step in flight is committed.
        """
        request = self._get(request_id)
        if request is None:
            return False
        self._end(request, reason, now)
        return True

    def _get(self, request_id: str) -> Request | None:
        return self.waiting.get(request_id) or next((r for r in self.running if r.id == request_id), None)

    def _end(self, request: Request, reason: FinishReason, now: float, error: str | None = None) -> None:
        request.end(reason, now, error)
        if self.waiting.pop(request.id, None) is None:
            self.running.remove(request)
        if request.num_in_flight_tokens:
            self.ending[request.sequence] = request
        else:
            self._release(request)
        if request.on_end is not None:
            request.on_end(request)
        if request.beam is not None:  # a search cannot continue without one of its members
            for other in request.beam.members:
                if not other.is_ended:
                    self._end(other, reason, now, error)

    def _release(self, request: Request) -> None:
        """Free the blocks, the row and the copies of an ended request."""
        if request.swapped:
            self.queues.swap.drop(request)
        if self.draft_model is not None:
            self.draft_model.release(request)
        self.kv.release(request)
        if request.row >= 0:
            self.queues.free_rows.append(request.row)
            request.row = -1

    def _release_if_idle(self, request: Request) -> None:
        if not request.num_in_flight_tokens and self.ending.pop(request.sequence, None) is not None:
            self._release(request)

    def _expire(self, now: float) -> None:
        while self.deadlines and self.deadlines[0][0] <= now:
            _, sequence, request_id = heapq.heappop(self.deadlines)
            request = self._get(request_id)
            if request is not None and request.sequence == sequence:
                self._end(request, FinishReason.DEADLINE, now)

    def close(self, now: float) -> None:
        """End all requests and free every block."""
        for request in [*self.waiting.values(), *self.running]:
            self._end(request, FinishReason.CANCELLED, now)
        self.kv.close()
        if self.draft_model is not None:
            self.draft_model.close()

    # -- state --------------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running or self.queues.swap.has_dropped)

    def requests(self) -> list[Request]:
        """Return all requests that may hold blocks."""
        return [*self.waiting.values(), *self.running, *self.ending.values()]

    def best_priority(self) -> Priority | None:
        """Return the priority of the most urgent request; None if there is no request."""
        priorities = [request.priority for request in self.waiting.values()]
        priorities += [request.priority for request in self.running]
        return min(priorities, default=None)

    def figures(self) -> tuple[int, int, int, int, int]:
        """Return the numbers of running and waiting requests, and of free, cached and owned blocks."""
        usage = self.kv.usage()
        return len(self.running), len(self.waiting), usage.free, usage.cached, usage.owned

    def check_integrity(self) -> None:
        """Assert that blocks, rows and states agree."""
        self.kv.check_integrity(self.requests())
        if self.draft_model is not None:
            self.draft_model.check_integrity()
        self.queues.check_integrity(list(self.ending.values()))
        for request in self.requests():
            assert not request.tables or request.num_computed_tokens <= len(request.tables[0]) * self.kv.block_tokens

    # -- steps --------------------------------------------------------------------------------------------------

    def plan(self, now: float) -> StepPlan:
        """Plan the next step: decodes first, then prompts of running requests, then waiting requests."""
        plan = StepPlan(self.model)
        if self.deadlines and self.deadlines[0][0] <= now:
            self._expire(now)
        if self.queues.swap.has_dropped:
            plan.dropped_keys = self.queues.swap.take_dropped()
        if self._rewritten:
            plan.row_setups = [RowSetup(request, []) for request in self._rewritten if request.row >= 0]
            self._rewritten.clear()
        self._planner.fill(plan, now)
        return plan

    def shrink(self, plan: StepPlan) -> bool:
        """Return False: the memory of a decoder's step is reserved in advance."""
        return False

    def preempt_last(self, plan: StepPlan) -> bool:
        """Preempt the last-ranked request to make room for another model; return False if none can be preempted."""
        return self._planner.preempt_last(plan)

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None:
        """Apply a step's result: advance its requests, cache their blocks, end finished requests."""
        if plan.stage == DRAFTING and self.draft_model is not None:
            self._planner.take_drafts(self.draft_model.commit(plan, result))
            return
        size, kv, tokens, failures = self.kv.block_tokens, self.kv, result.tokens, result.failures
        has_readings = bool(result.probed or result.observed or result.prompt_logprobs)
        has_logprobs = result.logprobs is not None or result.drawn_logprobs is not None
        drafts, drawn = plan.drafts, 0
        searches: list[BeamGroup[Request]] = []
        for index, request in enumerate(plan.requests):
            count = plan.counts[index]
            request.num_in_flight_tokens -= count
            samples = plan.samples[index]
            if samples:
                request.num_pending_samples -= 1
                drawn += 1
            if drafts and index in drafts:
                drawn += len(drafts[index])
                self._commit_draft(request, index, drawn - count, plan, result, now)
                continue
            if request.finish_reason is not None:
                self._release_if_idle(request)
                continue
            request.num_computed_tokens += count
            if has_readings:
                _keep_readings(request, index, plan.starts[index], result)
            if request.num_computed_tokens % size < count:
                kv.remember(request)
                kv.drop_out_of_window(request)
            if not samples:
                continue
            if failures and index in failures:
                self._end(request, FinishReason.FAILED, now, failures[index])
                continue
            if request.beam is not None:
                if request.beam.offer(request, result.candidates[index]):
                    searches.append(request.beam)
                continue
            if has_logprobs:
                _keep_logprobs(request, drawn - 1, result)
            self._append(request, tokens[drawn - 1], now)
        for search in searches:
            if not search.leader.is_ended:
                self._advance_search(search, now)
        self.counters.decode_tokens += plan.num_decodes
        self.counters.prefill_tokens += plan.num_prefill_tokens

    def _append(self, request: Request, token: int, now: float) -> bool:
        """Append a sampled token to the request; return whether the request ended."""
        request.tokens.append(token)
        request.marks.tokens.append(now)
        if request.drafting is not None:
            request.drafting.append(token)
        try:
            reason = _finish_reason(request, token)
        except Exception as error:  # from the request's callback: other requests of the step continue
            self._end(request, FinishReason.FAILED, now, f"{type(error).__name__}: {error}")
            return True
        if reason is not None:
            self._end(request, reason, now)
        return reason is not None

    def _commit_draft(
        self, request: Request, entry: int, first: int, plan: StepPlan, result: StepResult, now: float
    ) -> None:
        """Commit the sampled tokens of a request with a draft: the accepted draft tokens and one more.

        The first has index `first` among the step's tokens. Cache slots of rejected draft tokens are written again
        later.
        """
        if request.finish_reason is not None:
            self._release_if_idle(request)
            return
        if entry in result.failures:
            self._end(request, FinishReason.FAILED, now, result.failures[entry])
            return
        kept, proposed = result.kept[entry], len(plan.drafts[entry])
        request.drafted.add(proposed, kept - 1)
        self.counters.drafts.add(proposed, kept - 1)
        for index in range(first, first + kept):
            request.num_computed_tokens += 1
            if not request.num_computed_tokens % self.kv.block_tokens:
                self.kv.remember(request)
                self.kv.drop_out_of_window(request)
            _keep_logprobs(request, index, result)
            self.counters.decode_tokens += 1
            if self._append(request, result.tokens[index], now):
                break

    def _advance_search(self, search: BeamGroup[Request], now: float) -> None:
        """Continue a search whose members have all offered candidates with the best hypotheses, or end it."""
        leader = search.leader
        chosen = search.choose()
        leader.marks.tokens.append(now)
        if chosen:
            assign_hypotheses(search, chosen, self.queues, self.kv)
            self._rewritten += search.members
        elif search.finished:
            best = search.best()
            leader.tokens = [*leader.prompt, *best.output]
            leader.drawn_logprobs = best.logprobs
            self._end(leader, FinishReason.STOP if best.has_end else FinishReason.LENGTH, now)
        else:
            self._end(leader, FinishReason.FAILED, now, "no hypothesis of the search has a finite probability")

    def fail(self, plan: StepPlan, error: str, now: float) -> None:
        """Fail the requests of a step that raised. If a drafting step raised, only its drafts are lost."""
        if plan.stage == DRAFTING and self.draft_model is not None:
            self.draft_model.fail(plan)
            return
        for request, count, samples in zip(plan.requests, plan.counts, plan.samples, strict=True):
            request.num_in_flight_tokens -= count
            request.num_pending_samples -= samples
            if request.is_ended:
                self._release_if_idle(request)
            else:
                self._end(request, FinishReason.FAILED, now, error)

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Add a step's measured time to the cost model."""
        if plan.stage == DRAFTING and self.draft_model is not None:
            self.draft_model.observe(plan, seconds)
            return
        decodes = plan.num_decodes
        attended = sum(plan.starts[:decodes])
        for start, count in zip(plan.starts[decodes:], plan.counts[decodes:], strict=True):
            attended += count * start + count * count // 2
        prefill, drafted = plan.num_prefill_tokens, plan.num_drafted_tokens
        is_late = plan.is_late and not prefill  # steps with prompts usually are late, so lateness is part of their cost
        self.cost.observe(StepShape(plan.num_answering, prefill, attended, drafted, is_late), seconds)


def _finish_reason(request: Request, token: int) -> FinishReason | None:
    """Advance the request's grammar and callback by a token; return the finish reason if it is the last token."""
    if token in request.stop_ids:
        return FinishReason.STOP
    if request.constraint is not None:
        request.constraint.advance(token)
    if request.on_token is not None and request.on_token(token):
        return FinishReason.STOP
    return FinishReason.LENGTH if len(request.tokens) >= request.limit else None


def _keep_readings(request: Request, entry: int, start: int, result: StepResult) -> None:
    """Store the step's reports on the request's prompt."""
    if entry in result.probed:
        request.probed = result.probed[entry]
    if entry in result.observed:
        request.observed[start] = result.observed[entry]
    if entry in result.prompt_logprobs:
        known = len(request.prompt_logprobs) - start  # positive after a preemption, when tokens are computed again
        request.prompt_logprobs.extend(result.prompt_logprobs[entry][known:])
        request.prompt_top_logprobs.extend(result.prompt_top_logprobs.get(entry, ())[known:])
        request.prompt_ranks.extend(result.prompt_ranks.get(entry, ())[known:])


def _keep_logprobs(request: Request, index: int, result: StepResult) -> None:
    if request.rules is not None and result.drawn_logprobs is not None:
        request.drawn_logprobs.append(result.drawn_logprobs[index])
    if request.params.logprobs is not None and result.logprobs is not None:
        request.logprobs.append(result.logprobs[index])
        top = result.top_logprobs[index] if result.top_logprobs is not None else None
        request.top_logprobs.append(top or [])
