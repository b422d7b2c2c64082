"""`Scheduler`: who computes how many tokens in the next step of one model, and what follows from the result."""

from __future__ import annotations

import heapq
from bisect import insort

from antiphon.engine.beam import BeamGroup, Hypothesis
from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.kv.swap import SwapSpace
from antiphon.engine.plan import RowSetup, StepPlan, StepResult, SwapIn, SwapOut
from antiphon.engine.policies.policy import Policy, StepView
from antiphon.engine.request import FinishReason, Priority, Request, RequestState
from antiphon.engine.scheduler_config import Preemption, SchedulerConfig, SchedulerCounters
from antiphon.errors import ContextLengthError, InvalidRequestError, OverloadedError

#: Prefill advances by at least this much a step, however short the step's time budget.
MIN_PREFILL_TOKENS = 2


class Scheduler:
    """Plain bookkeeping: it owns the requests of one model and their blocks, and touches no tensor."""

    def __init__(
        self, model: str, kv: KVManager, policy: Policy, config: SchedulerConfig, max_model_tokens: int
    ) -> None:
        self.model = model
        self.kv = kv
        self.policy = policy
        self.config = config
        self.cost = CostModel()
        self.counters = SchedulerCounters()
        self.max_model_tokens = max_model_tokens
        self.waiting: dict[str, Request] = {}
        self.running: list[Request] = []  # by rank
        self.ending: dict[int, Request] = {}  # by order of arrival: ended while a step of theirs is in flight
        self._free_rows = list(range(config.max_running - 1, -1, -1))
        self._swap = SwapSpace(config.swap_bytes)
        self._deadlines: list[tuple[float, int, str]] = []
        self._num_arrivals = 0
        self._rewritten: list[Request] = []  # whose rows no longer hold what the executor knows of them
        self._short: Request | None = None  # in the plan being made, the first that did not get the room it needs
        self._paused: Request | None = None  # kept out of the plan being made, so that it can be preempted soon

    # -- arrivals and ends --------------------------------------------------------------------------------------

    def add(self, request: Request, now: float) -> None:
        """Take a request in, or refuse it with the numbers: too long for ever, or too many waiting."""
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
            heapq.heappush(self._deadlines, (request.deadline, request.sequence, request.id))

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
        """End a request now. Its blocks are free at once, or when the step that is computing it is committed."""
        request = self._get(request_id)
        if request is None:
            return False
        self._end(request, reason, now)
        return True

    def _get(self, request_id: str) -> Request | None:
        return self.waiting.get(request_id) or next((r for r in self.running if r.id == request_id), None)

    def _end(self, request: Request, reason: FinishReason, now: float, error: str | None = None) -> None:
        request.finish_reason = reason
        request.state = reason.state
        request.error = error
        request.marks.finished = now
        if self.waiting.pop(request.id, None) is None:
            self.running.remove(request)
        if request.num_in_flight_tokens:
            self.ending[request.sequence] = request
        else:
            self._forget(request)
        if request.on_end is not None:
            request.on_end(request)
        if request.beam is not None:  # nobody goes on without the others
            for other in request.beam.members:
                if not other.is_ended:
                    self._end(other, reason, now, error)

    def _forget(self, request: Request) -> None:
        """Give back everything an ended request held."""
        if request.swapped:
            self._swap.drop(request)
        self.kv.release(request)
        if request.row >= 0:
            self._free_rows.append(request.row)
            request.row = -1

    # -- what there is ------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running or self._swap.has_dropped)

    def requests(self) -> list[Request]:
        """Everybody who may hold blocks."""
        return [*self.waiting.values(), *self.running, *self.ending.values()]

    def best_priority(self) -> Priority | None:
        """The most urgent request that is here."""
        everyone = [request.priority for request in self.waiting.values()]
        everyone += [request.priority for request in self.running]
        return min(everyone, default=None)

    def figures(self) -> tuple[int, int, int, int, int]:
        """Running, waiting, and blocks free, cached and owned."""
        usage = self.kv.usage()
        return len(self.running), len(self.waiting), usage.free, usage.cached, usage.owned

    # -- planning -----------------------------------------------------------------------------------------------

    def plan(self, now: float) -> StepPlan:
        """The next step: first those who are one behind, then those farther behind, then newcomers."""
        plan = StepPlan(self.model)
        self._short = self._paused = None
        if self._deadlines and self._deadlines[0][0] <= now:
            self._expire(now)
        if self._swap.has_dropped:
            plan.dropped_keys = self._swap.take_dropped()
        plan.row_setups = [RowSetup(request, []) for request in self._rewritten if request.row >= 0]
        self._rewritten = []
        farther, context = self._plan_decodes(plan)
        if farther or self.waiting:
            self._plan_prefill(plan, farther, context, now)
        for request, count, samples in zip(plan.requests, plan.counts, plan.samples, strict=True):
            request.num_in_flight_tokens += count
            request.num_pending_samples += samples
            if not request.marks.first_scheduled:
                request.marks.first_scheduled = now
        plan.row_setups = [setup for setup in plan.row_setups if setup.request.row >= 0]
        for setup in plan.row_setups:
            setup.tables = [self.kv.table_entries(setup.request, group) for group in range(len(self.kv.groups))]
            setup.fills_cross = _fills_cross(setup.request)
        for setup in plan.row_setups:
            setup.request.cross_filled = True
        return plan

    def _plan_decodes(self, plan: StepPlan) -> tuple[list[Request], int]:
        """Add everybody who is one behind; return who is farther behind, and the context that the decodes read."""
        size, cap = self.kv.block_tokens, self.config.max_step_tokens
        farther: list[Request] = []
        context = 0
        running, requests, starts = self.running, plan.requests, plan.starts
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
            if request.num_pending_samples and (start + 1 >= request.limit or request.beam is not None):
                continue  # the token being drawn is its last, or others decide what it is
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
        count = len(requests)
        plan.counts = [1] * count
        plan.samples = [True] * count
        plan.num_decodes = plan.num_tokens = count
        still = set(map(id, running))
        return [request for request in farther if id(request) in still], context

    def _plan_prefill(self, plan: StepPlan, farther: list[Request], context: int, now: float) -> None:
        cap = self.config.max_step_tokens - plan.num_tokens
        arrivals = [r.marks.arrived for r in (*farther, *self.waiting.values()) if not r.marks.tokens]
        oldest_wait = now - min(arrivals, default=now)
        start = farther[0].num_scheduled_tokens if farther else 0
        view = StepView(now, plan.num_decodes, context, oldest_wait, cap, self.cost, start)
        allowance = min(cap, self.policy.prefill_tokens(view))
        if self.config.step_seconds is not None and self.cost.is_fitted:
            seconds = self.config.step_seconds
            within = self.cost.prefill_tokens_within(seconds, plan.num_decodes, context, cap, start)
            allowance = min(allowance, max(within, MIN_PREFILL_TOKENS))
        for request in farther:
            if request.row >= 0 and request is not self._paused:  # else it was preempted by one before it, or will be
                allowance -= self._advance(request, plan, allowance)
        while self.waiting and self._short is None and (allowance > 0 or not plan.requests):
            taken = self._admit(plan, max(allowance, 1), now)
            if taken is None or _fills_cross(plan.row_setups[-1].request):
                break  # filling takes about as long as a chunk: one newcomer a step, so that the others do not wait
            allowance -= taken

    def _chunk(self, request: Request, allowance: int) -> int:
        behind = request.num_behind
        if self.config.chunk_tokens is None:
            return behind
        return min(behind, allowance, self.config.chunk_tokens)

    def _advance(self, request: Request, plan: StepPlan, allowance: int) -> int:
        """Let a running request catch up by a chunk; return the tokens given."""
        count = self._chunk(request, allowance)
        if allowance < 1 or not self._make_room(request, request.num_scheduled_tokens + count, plan):
            return 0
        plan.add(request, count, samples=count == request.num_behind)
        return count

    def _make_room(self, request: Request, num_tokens: int, plan: StepPlan) -> bool:
        """Grow a running request, preempting those that rank after it; False if it has to wait a step.

        Whoever ranks after one that has to wait does not grow in this plan: the room is not theirs to take.
        """
        short = self._short
        is_behind = short is not None and self.policy.rank(request) > self.policy.rank(short)
        if is_behind and self.kv.needs_room(request, num_tokens):
            return False
        while not self.kv.grow(request, num_tokens, plan):
            victim = self._victim(after=request)
            if victim is None:
                self._short = request
                self._pause(plan, after=request)
                return False
            self._preempt(victim, plan)
        return True

    def _pause(self, plan: StepPlan, after: Request | None) -> None:
        """The last-ranked request is in flight and cannot be preempted now: leave it out, so that it soon can be."""
        last = self.running[-1] if self.running else None
        if last is not None and last is not after:
            self._paused = last
            if last in plan.requests:
                plan.remove(last)

    def _victim(self, after: Request | None) -> Request | None:
        """The last-ranked running request without a step in flight that ranks after the given one."""
        for victim in reversed(self.running):
            if victim is after:
                return None
            if not victim.num_in_flight_tokens:
                return victim
        return None

    def preempt_last(self, plan: StepPlan) -> bool:
        """Preempt the last-ranked request, for another model's sake; False if none can be."""
        victim = self._victim(after=None)
        if victim is not None:
            self._preempt(victim, plan)
        return victim is not None

    def _preempt(self, victim: Request, plan: StepPlan) -> None:
        """Send a running request back to wait, with its blocks dropped or copied to host memory."""
        if victim in plan.requests:
            plan.remove(victim)
        self.running.remove(victim)
        spans = self.kv.spans(victim)
        size = sum(num_bytes for _, num_bytes in spans)
        swaps = self.config.preemption is Preemption.SWAP and self._swap.has_room(size)
        if swaps and victim.num_computed_tokens:
            plan.moves.append(SwapOut(self._swap.put(victim, self.kv.swap_out(victim), size), spans))
            self.counters.swaps_out += 1
        else:
            self.kv.release(victim)
            victim.num_computed_tokens = 0
        victim.state = RequestState.WAITING
        self._free_rows.append(victim.row)
        victim.row = -1
        victim.marks.preemptions += 1
        self.counters.preemptions += 1
        self.waiting[victim.id] = victim

    def _admit(self, plan: StepPlan, allowance: int, now: float) -> int | None:
        """Admit the next waiting request with a first chunk; its tokens, or None if nobody can be admitted.

        Where the next one finds no place or no room, one that may displace a running request goes before it.
        """
        first = None
        if self._free_rows:
            ready = [request for request in self.waiting.values() if self._is_ready(request)]
            if not ready:
                return None
            first = self.policy.next_waiting(ready, now)
            if (count := self._admit_one(first, plan, allowance, now)) is not None:
                return count
        if not self.policy.displaces or not self.running:
            return None
        last, may_displace = self.running[-1], self.policy.may_displace
        urgent = [r for r in self.waiting.values() if may_displace(r, last, now) and self._is_ready(r)]
        if not urgent or (request := self.policy.next_waiting(urgent, now)) is first:
            return None
        return self._admit_one(request, plan, allowance, now)

    def _admit_one(self, request: Request, plan: StepPlan, allowance: int, now: float) -> int | None:
        """Admit this request, displacing others where it may; its tokens, or None with it still waiting."""
        while not self._free_rows:
            if not self._displace(request, plan, now):
                return None
        del self.waiting[request.id]  # so that it is no candidate while others are sent back to wait
        while (count := self._start(request, plan, allowance)) is None:
            if not self._displace(request, plan, now):
                self.waiting[request.id] = request
                return None
        request.row = self._free_rows.pop()
        request.state = RequestState.RUNNING
        insort(self.running, request, key=self.policy.rank)
        plan.row_setups.append(RowSetup(request, []))  # the tables follow when the plan is complete
        if request.num_scheduled_tokens + 1 == request.num_tokens:
            self._insert_decode(plan, request)
        else:
            plan.add(request, count, samples=count == request.num_behind)
        return count

    @staticmethod
    def _insert_decode(plan: StepPlan, request: Request) -> None:
        """A newcomer that is one behind (a fork, a swapped request) joins the decodes of the plan."""
        place = plan.num_decodes
        plan.requests.insert(place, request)
        plan.starts.insert(place, request.num_scheduled_tokens)
        plan.counts.insert(place, 1)
        plan.samples.insert(place, True)
        plan.num_decodes += 1
        plan.num_tokens += 1

    def _is_ready(self, request: Request) -> bool:
        """A fork waits for its parent's prompt, as long as that is coming."""
        parent = request.fork_of
        if parent is None or request.num_computed_tokens or request.swapped:
            return True
        if parent.is_ended or self.kv.can_fork(parent, request.num_prompt_tokens - 1):
            return True
        return parent.num_output_tokens > 0

    def _start(self, request: Request, plan: StepPlan, allowance: int) -> int | None:
        """Give a waiting request its first blocks: swapped back, forked, or from the prefix cache. None: no room."""
        may_pack = not self.running
        spans: list[tuple[int, int]] = []
        if request.swapped:
            if not self.kv.swap_in(request, self._swap.held(request), plan, may_pack):
                return None
            spans = self.kv.spans(request)
        elif request.fork_of is not None and self.kv.can_fork(request.fork_of, request.num_prompt_tokens - 1):
            self.kv.fork(request.fork_of, request, request.num_prompt_tokens - 1)
        else:
            self.kv.attach_prefix(request)
        cached = request.num_computed_tokens
        count = self._chunk(request, allowance)
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
            plan.moves.insert(moves, SwapIn(self._swap.take(request), spans))
            self.counters.swaps_in += 1
        elif not request.marks.first_scheduled:
            request.num_cached_tokens = cached
            self.counters.cached_tokens += cached
        return count

    def _displace(self, request: Request, plan: StepPlan, now: float) -> bool:
        """Preempt the last-ranked running request for a waiting one, where the policy allows it."""
        last = self.running[-1] if self.running else None
        if last is None or not self.policy.may_displace(request, last, now):
            return False
        if last.num_in_flight_tokens:
            self._pause(plan, after=None)
            return False
        self._preempt(last, plan)
        return True

    def _expire(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            _, sequence, request_id = heapq.heappop(self._deadlines)
            request = self._get(request_id)
            if request is not None and request.sequence == sequence:
                self._end(request, FinishReason.DEADLINE, now)

    # -- committing ---------------------------------------------------------------------------------------------

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None:
        """Take a step's result in: advance, keep what others may share, end who is done, free what was theirs."""
        size, kv = self.kv.block_tokens, self.kv
        drawn = 0
        searches: list[BeamGroup] = []
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
                    self._forget(request)
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
                    self._end(request, FinishReason.FAILED, now, result.failures[index])
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
                    self._end(request, FinishReason.FAILED, now, f"{type(error).__name__}: {error}")
                    continue
                if reason is not None:
                    self._end(request, reason, now)
        for search in searches:
            if not search.leader.is_ended:
                self._advance_search(search, now)
        self.counters.decode_tokens += plan.num_decodes
        self.counters.prefill_tokens += plan.num_tokens - plan.num_decodes

    def _advance_search(self, search: BeamGroup, now: float) -> None:
        """Give the hypotheses that go on to the members: the first of a member stays with it, others take the places
        of members that have none."""
        leader = search.leader
        chosen = search.choose()
        leader.marks.tokens.append(now)
        if not chosen and not search.finished:
            self._end(leader, FinishReason.FAILED, now, "no hypothesis of the search has a finite probability")
            return
        if not chosen:
            best = search.best()
            leader.tokens = [*leader.prompt, *best.output]
            leader.drawn_logprobs = best.logprobs
            self._end(leader, FinishReason.STOP if best.has_end else FinishReason.LENGTH, now)
            return
        staying: dict[int, Hypothesis] = {}
        moving: list[Hypothesis] = []
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
        self._rewritten += search.members

    def _become(self, member: Request, parent: Request) -> None:
        """Make a member a copy of another: its tokens, and its blocks where it has them."""
        member.tokens, member.drawn_logprobs = list(parent.tokens), list(parent.drawn_logprobs)
        if member.swapped:
            self._swap.drop(member)
            member.num_computed_tokens = 0
        if member.row < 0:
            return  # it waits, and will compute what it needs
        self.kv.release(member)
        if self.kv.can_fork(parent, parent.num_computed_tokens) and parent.num_computed_tokens:
            self.kv.fork(parent, member, parent.num_computed_tokens)
            return
        self.running.remove(member)
        self._free_rows.append(member.row)
        member.row, member.num_computed_tokens, member.state = -1, 0, RequestState.WAITING
        self.waiting[member.id] = member

    @staticmethod
    def _ends(request: Request, token: int) -> FinishReason | None:
        if token in request.stop_ids:
            return FinishReason.STOP
        if request.constraint is not None:
            request.constraint.advance(token)
        if request.on_token is not None and request.on_token(token):
            return FinishReason.STOP
        return FinishReason.LENGTH if len(request.tokens) >= request.limit else None

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Teach the cost model what the step took."""
        decodes = plan.num_decodes
        attended = sum(plan.starts[:decodes])
        for start, count in zip(plan.starts[decodes:], plan.counts[decodes:], strict=True):
            attended += count * start + count * count // 2
        self.cost.observe(StepShape(decodes, plan.num_tokens - decodes, attended), seconds)

    def fail(self, plan: StepPlan, error: str, now: float) -> None:
        """A step that raised: its requests fail with the cause, everybody else goes on."""
        for request, count, samples in zip(plan.requests, plan.counts, plan.samples, strict=True):
            request.num_in_flight_tokens -= count
            request.num_pending_samples -= samples
            if not request.is_ended:
                self._end(request, FinishReason.FAILED, now, error)
            elif not request.num_in_flight_tokens and self.ending.pop(request.sequence, None) is not None:
                self._forget(request)

    def close(self, now: float) -> None:
        """End everybody and give every block back."""
        for request in [*self.waiting.values(), *self.running]:
            self._end(request, FinishReason.CANCELLED, now)
        self.kv.close()

    def check_integrity(self) -> None:
        """Blocks, rows and states agree with each other."""
        self.kv.check_integrity(self.requests())
        rows = [request.row for request in [*self.running, *self.ending.values()]]
        assert sorted(rows + self._free_rows) == list(range(self.config.max_running)), "rows are lost or given twice"
        assert all(request.state is RequestState.RUNNING and not request.is_ended for request in self.running)
        assert all(request.state is RequestState.WAITING and request.row < 0 for request in self.waiting.values())
        self._swap.check_integrity({r.sequence for r in self.waiting.values() if r.swapped})
        ranks = [self.policy.rank(request) for request in self.running]
        assert ranks == sorted(ranks), "running requests are out of order"
        for request in self.requests():
            assert not request.tables or request.num_computed_tokens <= len(request.tables[0]) * self.kv.block_tokens


def _fills_cross(request: Request) -> bool:
    """Whether the request's cross blocks are its own and nothing has been written to them."""
    return request.cross_tokens > 0 and not request.cross_filled
