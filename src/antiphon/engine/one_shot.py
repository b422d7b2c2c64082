"""`OneShotScheduler`: requests that run in batched stages instead of token by token, and hold no blocks."""

from __future__ import annotations

import logging

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import FinishReason, Priority, Request, RequestState
from antiphon.errors import ContextLengthError, InvalidRequestError, OverloadedError

logger = logging.getLogger("antiphon.engine")

#: Steps without running out of memory after which a reduced limit is doubled.
GROW_STEPS = 64


class OneShotScheduler:
    """Scheduler of one-shot requests: each step runs one stage of as many requests as fit the token limit.

    Steps of other models run between the stages. `side_by_side` is the number of requests that the executor computes at
    once, each on its own core: more per step would delay the first, fewer would leave cores idle.
    """

    def __init__(
        self,
        model: str,
        policy: Policy,
        *,
        max_model_tokens: int,
        num_stages: int = 1,
        side_by_side: int = 1,
        max_step_tokens: int = 4096,
        max_waiting: int = 4096,
        step_seconds: float | None = None,
        is_padded: bool = False,
    ) -> None:
        self.model = model
        self.policy = policy
        self.cost = CostModel()
        self.max_model_tokens = max_model_tokens
        self.num_stages = num_stages
        self.side_by_side = side_by_side
        self.max_step_tokens = max_step_tokens
        self.max_waiting = max_waiting
        self.step_seconds = step_seconds
        self.is_padded = is_padded  # every request of a step costs as much as its longest
        self.waiting: dict[str, Request] = {}
        self.running: dict[str, Request] = {}  # requests with a stage in flight
        self._num_arrivals = 0
        self._full_step_tokens = 0  # limit before the first shortage of memory; 0 if there was none
        self._num_good_steps = 0

    def add(self, request: Request, now: float) -> None:
        """Queue a request; reject one that is too long, or that finds the queue full."""
        if not request.num_prompt_tokens:
            raise InvalidRequestError("the input has no tokens")
        if request.num_prompt_tokens > self.max_model_tokens:
            raise ContextLengthError(
                f"input has {request.num_prompt_tokens} tokens; model {self.model!r} takes {self.max_model_tokens}"
            )
        if len(self.waiting) >= self.max_waiting:
            raise OverloadedError(
                f"model {self.model!r} has {len(self.waiting)} requests waiting; at most {self.max_waiting} may wait"
            )
        self._num_arrivals += 1
        request.sequence = self._num_arrivals
        request.marks.arrived = now
        self.waiting[request.id] = request

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    def best_priority(self) -> Priority | None:
        return min((request.priority for request in self.requests()), default=None)

    def requests(self) -> list[Request]:
        return [*self.waiting.values(), *self.running.values()]

    def figures(self) -> tuple[int, int, int, int, int]:
        return len(self.running), len(self.waiting), 0, 0, 0

    def plan(self, now: float) -> StepPlan:
        """Plan the next stage of the most urgent request, batched with others at that stage up to the token limit.

        A critical request is batched with critical ones only, so that it does not wait for less urgent work.
        """
        plan = StepPlan(self.model)
        for request in [r for r in self.waiting.values() if r.deadline is not None and r.deadline <= now]:
            self._end(request, FinishReason.DEADLINE, now)
        if not self.waiting:
            return plan
        cap = self.max_step_tokens
        if self.step_seconds is not None and self.cost.is_fitted:
            cap = self.cost.prefill_tokens_within(self.step_seconds, 0, 0, cap)
        members = self._together(now)
        plan.stage = members[0].stage
        longest = 0
        for request in members:
            count = request.num_prompt_tokens
            longest = max(longest, count)
            size = (len(plan.requests) + 1) * longest if self.is_padded else plan.num_tokens + count
            if plan.requests and size > cap:
                break
            plan.add(request, count, samples=False)
            request.num_in_flight_tokens = count
            if not request.marks.first_scheduled:
                request.marks.first_scheduled = now
        for request in plan.requests:
            del self.waiting[request.id]
            self.running[request.id] = request
            request.state = RequestState.RUNNING
        return plan

    def _together(self, now: float) -> list[Request]:
        """Return waiting requests at one stage, the most urgent first."""
        order = sorted(self.waiting.values(), key=self.policy.rank)
        first = self.policy.next_waiting(order, now)
        others = [request for request in order if request is not first]
        if first.priority is Priority.CRITICAL:
            others = [request for request in others if request.priority is Priority.CRITICAL]
        if self.side_by_side == 1:
            return [first, *(request for request in others if request.stage == first.stage)]
        chosen = [first, *others[: self.side_by_side - 1]]
        # In the first half of its stages, a request waits for others of its priority, to be batched with them.
        stage = first.stage
        if 2 * stage < self.num_stages:
            stage = min(request.stage for request in chosen if request.priority is first.priority)
        return [request for request in chosen if request.stage == stage]

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None:
        """Advance the step's requests by a stage; end those whose last stage ran, with their output."""
        for index, request in enumerate(plan.requests):
            request.num_in_flight_tokens = 0
            self.running.pop(request.id, None)
            if request.is_ended:
                continue
            request.stage += 1
            request.state = RequestState.WAITING
            self.waiting[request.id] = request
            if request.stage == self.num_stages:
                assert result.outputs is not None
                request.result = result.outputs[index]
                self._end(request, FinishReason.STOP, now)
        self._grow()

    def fail(self, plan: StepPlan, error: str, now: float) -> None:
        for request in plan.requests:
            request.num_in_flight_tokens = 0
            if not request.is_ended:
                self._end(request, FinishReason.FAILED, now, error)

    def shrink(self, plan: StepPlan) -> bool:
        """Limit steps to half of this step's tokens until GROW_STEPS succeed; return False for a single request."""
        if len(plan.requests) < 2:
            return False
        limit, self._num_good_steps = max(1, min(self.max_step_tokens, plan.num_tokens // 2)), 0
        self._full_step_tokens = max(self._full_step_tokens, self.max_step_tokens)
        logger.warning(
            "model %r: a step of %d requests and %d tokens ran out of memory; steps now have at most %d tokens, not %d",
            self.model, len(plan.requests), plan.num_tokens, limit, self.max_step_tokens,
        )  # fmt: skip
        self.max_step_tokens = limit
        for request in plan.requests:
            request.num_in_flight_tokens = 0
            if self.running.pop(request.id, None) is not None:
                request.state = RequestState.WAITING
                self.waiting[request.id] = request
        return True

    def _grow(self) -> None:
        """Count a successful step; after GROW_STEPS of them, double a reduced limit."""
        if self.max_step_tokens >= self._full_step_tokens:
            return
        self._num_good_steps += 1
        if self._num_good_steps == GROW_STEPS:
            self._num_good_steps = 0
            self.max_step_tokens = min(self._full_step_tokens, 2 * self.max_step_tokens)
            logger.info("model %r: steps have at most %d tokens again", self.model, self.max_step_tokens)

    def abort(self, request_id: str, reason: FinishReason, now: float) -> bool:
        request = self.waiting.get(request_id) or self.running.get(request_id)
        if request is None:
            return False
        self._end(request, reason, now)
        return True

    def _end(self, request: Request, reason: FinishReason, now: float, error: str | None = None) -> None:
        request.end(reason, now, error)
        self.waiting.pop(request.id, None)
        self.running.pop(request.id, None)
        if request.on_end is not None:
            request.on_end(request)

    def observe(self, plan: StepPlan, seconds: float) -> None:
        self.cost.observe(StepShape(0, plan.num_tokens), seconds)

    def preempt_last(self, plan: StepPlan) -> bool:
        return False

    def check_integrity(self) -> None:
        assert not set(self.waiting) & set(self.running)
        assert all(request.stage < self.num_stages for request in self.waiting.values())

    def close(self, now: float) -> None:
        for request in self.requests():
            self._end(request, FinishReason.CANCELLED, now)
