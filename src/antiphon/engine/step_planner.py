"""`StepPlanner`: requests of the next step, and the number of tokens that each computes."""

from __future__ import annotations

import sys

from antiphon.engine.cost_model import CostModel
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import FILLING, RowSetup, StepPlan, SwapIn, SwapOut
from antiphon.engine.policies.policy import StepView
from antiphon.engine.request import Request
from antiphon.engine.request_queues import RequestQueues
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig, SchedulerCounters
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.speculation.speculator import Speculator

#: Minimum prefill tokens per step, even if the time budget has room for none.
MIN_PREFILL_TOKENS = 2
#: Maximum prefill tokens per step under a time budget, before the cost of a token is known.
UNFITTED_PREFILL_TOKENS = 256


class StepPlanner:
    """Planner of a model's steps; it allocates blocks, preempts and admits requests as the policy decides."""

    def __init__(
        self,
        queues: RequestQueues,
        kv: KVManager,
        config: SchedulerConfig,
        counters: SchedulerCounters,
        cost: CostModel,
        late_choice: bool = False,
        draft_model: DraftModel | None = None,
    ) -> None:
        self.queues, self.kv, self.config, self.counters, self.cost = queues, kv, config, counters, cost
        self.policy = queues.policy
        self.late_choice = late_choice
        self.waiting, self.running = queues.waiting, queues.running
        self._short: Request | None = None  # in the current plan, the first request without the room it needs
        self._paused: Request | None = None  # left out of the current plan, so that it can be preempted soon
        self._has_just_filled = False  # the last plan filled cross blocks while other requests waited
        self._may_fill = True  # whether the current plan may fill cross blocks
        self._draft_model = draft_model
        self._speculator = Speculator(cost, draft_model)
        self._speculating: list[Request] = []  # in the current plan, decodes that may have a draft
        self._drafts: dict[int, list[int]] = {}  # in the current plan, drafts by the request's identity

    def fill(self, plan: StepPlan, now: float) -> None:
        """Add requests to a plan: those one token behind, then those farther behind, then waiting requests.

        If a draft model must run first, the plan holds only its step.
        """
        if self._draft_model is not None and self._plan_drafting(plan, self._draft_model):
            return
        self._short = self._paused = None
        self._may_fill, self._has_just_filled = not self._has_just_filled, False
        self._drafts.clear()
        self._speculating.clear()
        farther, context = self._plan_decodes(plan)
        if self._speculating:
            self._plan_drafts(plan, context)
        if farther or self.waiting:
            self._plan_prefill(plan, farther, context, now)
        if self._drafts:
            self._begin_drafts(plan)
        for request, count, samples in zip(plan.requests, plan.counts, plan.samples, strict=True):
            request.num_in_flight_tokens += count
            request.num_pending_samples += samples
            if not request.marks.first_scheduled:
                request.marks.first_scheduled = now
        plan.row_setups = [setup for setup in plan.row_setups if setup.request.row >= 0]
        for setup in plan.row_setups:
            setup.tables = [self.kv.table_entries(setup.request, group) for group in range(len(self.kv.groups))]
            setup.fills_cross = _fills_cross(setup.request)
            plan.stage = FILLING if setup.fills_cross else plan.stage
        for setup in plan.row_setups:
            setup.request.cross_filled = True

    def _plan_decodes(self, plan: StepPlan) -> tuple[list[Request], int]:
        """Add the requests that are one token behind; return those farther behind, and the context of the decodes."""
        size, cap = self.kv.block_tokens, self.config.max_step_tokens
        farther: list[Request] = []
        context = 0
        running, requests, starts = self.running, plan.requests, plan.starts
        held_back = self._speculator.waiting(running)
        index = 0
        while index < len(running):  # preemption shortens the list from its end
            request = running[index]
            index += 1
            start = request.num_computed_tokens + request.num_in_flight_tokens
            behind = len(request.tokens) + request.num_pending_samples - start
            if behind != 1:
                if behind > 1:
                    farther.append(request)
                continue
            if request.num_pending_samples:
                needs_last = request.needs_last_token
                if start + 1 >= request.limit or (needs_last and (not self.late_choice or request.beam is not None)):
                    continue  # the token being sampled is its last, or decides how the next one is sampled or computed
                if id(request) in held_back:
                    continue  # its draft is made when the token being sampled is known
                plan.needs_commit = plan.needs_commit or needs_last
            if len(requests) >= cap:
                break
            if request is self._paused:
                continue
            needs_room = not start % size or request.has_shared_tail
            if needs_room and not self._make_room(request, start + 1, plan):
                continue
            requests.append(request)
            starts.append(start)
            context += start
            if request.speculates and request.may_draft:
                self._speculating.append(request)
        count = len(requests)
        plan.counts = [1] * count
        plan.samples = [True] * count
        plan.num_decodes = plan.num_tokens = count
        still = set(map(id, running))
        return [request for request in farther if id(request) in still], context

    def _plan_drafting(self, plan: StepPlan, model: DraftModel) -> bool:
        """Plan a draft model's step for the running requests; return False if it does not pay or a prompt waits."""
        is_waited_for = bool(self.waiting and self.queues.free_rows) or any(
            one.num_behind != 1 or one.num_pending_samples for one in self.running
        )
        if is_waited_for or plan.has_moves or plan.row_setups:
            return False
        able = [one for one in self.running if one.uses_draft_model and one.may_draft and not _has_drawn(one)]
        if not able:
            return False
        context = sum(one.num_tokens for one in self.running)
        requests, passes = self._speculator.passes(able, len(self.running), context)
        return bool(requests) and model.plan(requests, passes, plan)

    def take_drafts(self, drafts: dict[str, list[int]]) -> None:
        """Store a draft model's tokens, by request id."""
        for request in self.running:
            if request.drafting is not None and request.id in drafts:
                request.drafting.take(drafts[request.id])

    def _plan_drafts(self, plan: StepPlan, context: int) -> None:
        """Give decodes a draft if it pays. Drafts go after other decodes, and no request is preempted for them."""
        planned = set(map(id, plan.requests))  # some requests may have been preempted by one before them
        candidates = [request for request in self._speculating if id(request) in planned]
        room = self.config.max_step_tokens - plan.num_tokens
        drafts = self._speculator.drafts(candidates, plan.num_decodes, context, room)
        for index, tokens in drafts.items():
            request = candidates[index]
            length = request.num_tokens + len(tokens)
            if not self.kv.grow(request, length, plan, may_pack=False):
                del tokens[self.kv.capacity(request) - request.num_tokens :]
            if tokens:
                plan.remove(request)
                plan.add(request, 1 + len(tokens), samples=True)
                self._drafts[id(request)] = tokens

    def _begin_drafts(self, plan: StepPlan) -> None:
        """Record the drafts of the complete plan's entries, and start computing the masks of their grammars."""
        for entry in range(plan.num_decodes, len(plan.requests)):
            request = plan.requests[entry]
            tokens = self._drafts.get(id(request))
            if tokens is not None:
                plan.drafts[entry] = tokens
                if request.constraint is not None:
                    request.constraint.draft(tokens)

    def _remove(self, request: Request, plan: StepPlan) -> None:
        plan.remove(request)
        self._drafts.pop(id(request), None)

    def _plan_prefill(self, plan: StepPlan, farther: list[Request], context: int, now: float) -> None:
        cap = self.config.max_step_tokens - plan.num_tokens
        arrivals = [r.marks.arrived for r in (*farther, *self.waiting.values()) if not r.marks.tokens]
        oldest_wait = now - min(arrivals, default=now)
        start = farther[0].num_scheduled_tokens if farther else 0
        view = StepView(now, plan.num_decodes, context, oldest_wait, cap, self.cost, start)
        allowance = min(cap, self.policy.prefill_tokens(view))
        seconds = self.config.step_seconds
        if seconds is not None and self.cost.is_fitted:
            within = self.cost.prefill_tokens_within(seconds, plan.num_decodes, context, cap, start)
            allowance = min(allowance, max(within, MIN_PREFILL_TOKENS))
        elif seconds is not None:
            allowance = min(allowance, UNFITTED_PREFILL_TOKENS)
        for request in farther:
            if request.row >= 0 and request is not self._paused:  # otherwise preempted by one before it, or about to be
                allowance -= self._advance(request, plan, allowance)
        self._may_fill = self._may_fill or not plan.requests
        while self.waiting and self._short is None and (allowance > 0 or not plan.requests):
            taken = self._admit(plan, max(allowance, 1), now)
            if taken is None:
                break
            if self.config.isolates_fills and _fills_cross(admitted := plan.row_setups[-1].request):
                self._isolate(admitted, plan)
                break
            allowance -= taken

    def _isolate(self, admitted: Request, plan: StepPlan) -> None:
        """Leave only the admitted request, whose cross blocks are filled, in the plan; the others are in the next one.

        Filling takes as long as a step of many decodes, and no request of any model should wait for both at once.
        """
        others = [request for request in plan.requests if request is not admitted]
        for request in others:
            self._remove(request, plan)
        self._has_just_filled = bool(others)

    def _chunk(self, request: Request, plan: StepPlan, allowance: int) -> int:
        """Return the number of prompt tokens to compute in this step; 0 if it cannot keep more prompt logits."""
        count = request.num_behind
        if self.config.chunk_tokens is not None:
            count = min(count, allowance, self.config.chunk_tokens)
        return min(count, self._prompt_logits_left(request, plan))

    def _prompt_logits_left(self, request: Request, plan: StepPlan) -> int:
        """Return the tokens that the step has left for a request; limited only for one that reads prompt logits."""
        limit = self.config.prompt_logprob_tokens
        if limit is None or not _reads_prompt(request, request.num_scheduled_tokens):
            return sys.maxsize
        entries = zip(plan.requests, plan.starts, plan.counts, strict=True)
        return limit - sum(count for other, start, count in entries if _reads_prompt(other, start))

    def _advance(self, request: Request, plan: StepPlan, allowance: int) -> int:
        """Advance a running request by a chunk of its prompt; return the number of tokens added to the plan."""
        count = self._chunk(request, plan, allowance)
        if min(allowance, count) < 1 or not self._make_room(request, request.num_scheduled_tokens + count, plan):
            return 0
        plan.add(request, count, samples=count == request.num_behind)
        return count

    def _make_room(self, request: Request, num_tokens: int, plan: StepPlan) -> bool:
        """Grow a running request, preempting requests that rank after it; return False if it has to wait for a step.

        Requests that rank after a waiting one do not grow in this plan: the room is kept for that one.
        """
        short = self._short
        is_behind = short is not None and self.policy.rank(request) > self.policy.rank(short)
        if is_behind and self.kv.needs_room(request, num_tokens):
            return False
        while not self.kv.grow(request, num_tokens, plan):
            if self._draft_model is not None and self._draft_model.release_last(self.running):
                continue
            victim = self._victim(after=request)
            if victim is None:
                self._short = request
                self._pause(plan, after=request)
                return False
            self._preempt(victim, plan)
        return True

    def _pause(self, plan: StepPlan, after: Request | None) -> None:
        """Leave the last-ranked request, which is in flight, out of the plan, so that it can be preempted soon."""
        last = self.running[-1] if self.running else None
        if last is not None and last is not after:
            self._paused = last
            if last in plan.requests:
                self._remove(last, plan)

    def _victim(self, after: Request | None) -> Request | None:
        """Return the last-ranked running request after the given one that has no step in flight, or None."""
        for victim in reversed(self.running):
            if victim is after:
                return None
            if not victim.num_in_flight_tokens:
                return victim
        return None

    def preempt_last(self, plan: StepPlan) -> bool:
        """Preempt the last-ranked request to make room for another model; return False if none can be preempted."""
        victim = self._victim(after=None)
        if victim is not None:
            self._preempt(victim, plan)
        return victim is not None

    def _preempt(self, victim: Request, plan: StepPlan) -> None:
        """Move a running request back to `waiting`, with its blocks freed or copied to host memory."""
        if victim in plan.requests:
            self._remove(victim, plan)
        if self._draft_model is not None:
            self._draft_model.release(victim)
        plan.row_setups = [setup for setup in plan.row_setups if setup.request is not victim]
        spans = self.kv.spans(victim)
        size = sum(num_bytes for _, num_bytes in spans)
        swap = self.queues.swap
        if self.config.preemption is Preemption.SWAP and swap.has_room(size) and victim.num_computed_tokens:
            plan.moves.append(SwapOut(swap.put(victim, self.kv.swap_out(victim), size), spans))
            self.counters.swaps_out += 1
        else:
            self.kv.release(victim)
            victim.num_computed_tokens = 0
        self.queues.send_back(victim)
        victim.marks.preemptions += 1
        self.counters.preemptions += 1

    def _admit(self, plan: StepPlan, allowance: int, now: float) -> int | None:
        """Admit the next waiting request with a first chunk; return its tokens, or None if no request can be admitted.

        If the next request finds no row or no room, a request that may displace a running one goes before it.
        """
        first = None
        if self.queues.free_rows:
            ready = [request for request in self.waiting.values() if self._is_ready(request, plan)]
            if not ready:
                return None
            first = self.policy.next_waiting(ready, now)
            if (count := self._admit_one(first, plan, allowance, now)) is not None:
                return count
        if not self.policy.displaces or not self.running:
            return None
        last, may_displace = self.running[-1], self.policy.may_displace
        urgent = [r for r in self.waiting.values() if may_displace(r, last, now) and self._is_ready(r, plan)]
        if not urgent or (request := self.policy.next_waiting(urgent, now)) is first:
            return None
        return self._admit_one(request, plan, allowance, now)

    def _admit_one(self, request: Request, plan: StepPlan, allowance: int, now: float) -> int | None:
        """Admit this request, displacing others where allowed; return its tokens, or None if it must keep waiting."""
        while not self.queues.free_rows:
            if not self._displace(request, plan, now):
                return None
        del self.waiting[request.id]  # so that it is not a candidate while others return to wait
        while (count := self._start(request, plan, allowance)) is None:
            if self._draft_model is not None and self._draft_model.release_last(self.running):
                continue
            if not self._displace(request, plan, now):
                self.waiting[request.id] = request
                return None
        self.queues.start(request)
        plan.row_setups.append(RowSetup(request, []))  # the tables follow when the plan is complete
        if request.num_scheduled_tokens + 1 == request.num_tokens:
            self._insert_decode(plan, request)
        else:
            plan.add(request, count, samples=count == request.num_behind)
        return count

    @staticmethod
    def _insert_decode(plan: StepPlan, request: Request) -> None:
        """Add an admitted request that is one token behind (a fork, a swapped request) to the decodes of the plan."""
        entry = plan.num_decodes
        plan.requests.insert(entry, request)
        plan.starts.insert(entry, request.num_scheduled_tokens)
        plan.counts.insert(entry, 1)
        plan.samples.insert(entry, True)
        plan.num_decodes += 1
        plan.num_tokens += 1

    def _is_ready(self, request: Request, plan: StepPlan) -> bool:
        """Return whether a waiting request may be admitted.

        A fork waits for its parent's prompt, cross blocks for a step that may fill them, and a prompt whose logits are
        read for a step that has room for them. A preempted member of a search that has offered candidates has nothing
        to compute until all members have.
        """
        if request.beam is not None and request.beam.has_offered(request):
            return False
        parent = request.fork_of
        if parent is None and not self._may_fill and _fills_cross(request):
            return False
        if parent is None and self._prompt_logits_left(request, plan) < 1:
            return False
        if parent is None or request.num_computed_tokens or request.swapped:
            return True
        if parent.is_ended or self.kv.can_fork(parent, request.num_prompt_tokens - 1):
            return True
        # The parent is past its prompt and its window has dropped a block of it: the prompt is computed again.
        return parent.num_output_tokens > 0 or (parent.beam is not None and parent.beam.has_offered(parent))

    def _start(self, request: Request, plan: StepPlan, allowance: int) -> int | None:
        """Give a waiting request its blocks (swapped back, forked or cached); return its first chunk.

        Return None if there is no room.
        """
        may_pack = not self.running
        spans: list[tuple[int, int]] = []
        if request.swapped:
            if not self.kv.swap_in(request, self.queues.swap.held(request), plan, may_pack):
                return None
            spans = self.kv.spans(request)
        elif request.fork_of is not None and self.kv.can_fork(request.fork_of, request.num_prompt_tokens - 1):
            self.kv.fork(request.fork_of, request, request.num_prompt_tokens - 1)
        else:
            self.kv.attach_prefix(request)
        cached = request.num_computed_tokens
        count = max(self._chunk(request, plan, allowance), 1)
        moves = len(plan.moves)
        if not self.kv.grow(request, cached + count, plan, may_pack):
            dropped = request.num_dropped_blocks
            self.kv.release(request)
            if request.swapped:
                request.num_dropped_blocks = dropped
            else:
                request.num_computed_tokens = 0
            return None
        if request.swapped:
            plan.moves.insert(moves, SwapIn(self.queues.swap.take(request), spans))
            self.counters.swaps_in += 1
        elif not request.marks.first_scheduled:
            request.num_cached_tokens = cached
            self.counters.cached_tokens += cached
        return count

    def _displace(self, request: Request, plan: StepPlan, now: float) -> bool:
        """Preempt the last-ranked running request for a waiting one, if the policy allows it."""
        last = self.running[-1] if self.running else None
        if last is None or not self.policy.may_displace(request, last, now):
            return False
        if last.num_in_flight_tokens:
            self._pause(plan, after=None)
            return False
        self._preempt(last, plan)
        return True


def _has_drawn(request: Request) -> bool:
    return request.drafting is not None and request.drafting.has_drawn


def _reads_prompt(request: Request, start: int) -> bool:
    """Return whether a chunk from this position has prompt tokens whose logits the request reads."""
    return request.params.prompt_logprobs and start < request.num_prompt_tokens


def _fills_cross(request: Request) -> bool:
    """Return whether the request's cross blocks still have to be filled."""
    return request.cross_tokens > 0 and not request.cross_filled
