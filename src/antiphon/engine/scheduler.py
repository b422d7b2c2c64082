"""`Scheduler`: the requests of one model, who of them computes in the next step, and what follows from its result."""

from __future__ import annotations

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import StepPlan, StepResult
from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import FinishReason, Priority, Request
from antiphon.engine.request_book import RequestBook
from antiphon.engine.scheduler_config import SchedulerConfig
from antiphon.engine.step_committer import StepCommitter
from antiphon.engine.step_planner import StepPlanner


class Scheduler:
    """Plain bookkeeping: it owns the requests of one model and their blocks, and touches no tensor."""

    def __init__(
        self, model: str, kv: KVManager, policy: Policy, config: SchedulerConfig, max_model_tokens: int
    ) -> None:
        self.book = RequestBook(model, kv, policy, config, max_model_tokens)
        self.cost = CostModel()
        self.planner = StepPlanner(self.book, self.cost)
        self.committer = StepCommitter(self.book)
        self.model, self.kv, self.policy, self.config = model, kv, policy, config
        self.max_model_tokens = max_model_tokens
        book = self.book
        self.counters, self.waiting, self.running, self.ending = book.counters, book.waiting, book.running, book.ending

    def add(self, request: Request, now: float) -> None:
        """Take a request in, or refuse it with the numbers: too long for ever, or too many waiting."""
        self.book.add(request, now)

    def abort(self, request_id: str, reason: FinishReason, now: float) -> bool:
        """End a request now. Its blocks are free at once, or when the step that is computing it is committed."""
        return self.book.abort(request_id, reason, now)

    def close(self, now: float) -> None:
        """End everybody and give every block back."""
        self.book.close(now)

    @property
    def has_work(self) -> bool:
        return self.book.has_work

    def requests(self) -> list[Request]:
        """Everybody who may hold blocks."""
        return self.book.requests()

    def best_priority(self) -> Priority | None:
        """The most urgent request that is here."""
        return self.book.best_priority()

    def figures(self) -> tuple[int, int, int, int, int]:
        """Running, waiting, and blocks free, cached and owned."""
        return self.book.figures()

    def check_integrity(self) -> None:
        """Blocks, rows and states agree with each other."""
        self.book.check_integrity()

    def plan(self, now: float) -> StepPlan:
        """The next step: first those who are one behind, then those farther behind, then newcomers."""
        return self.planner.plan(now)

    def preempt_last(self, plan: StepPlan) -> bool:
        """Preempt the last-ranked request, for another model's sake; False if none can be."""
        return self.planner.preempt_last(plan)

    def commit(self, plan: StepPlan, result: StepResult, now: float) -> None:
        """Take a step's result in: advance, keep what others may share, end who is done, free what was theirs."""
        self.committer.commit(plan, result, now)

    def fail(self, plan: StepPlan, error: str, now: float) -> None:
        """A step that raised: its requests fail with the cause, everybody else goes on."""
        self.committer.fail(plan, error, now)

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Teach the cost model what the step took."""
        decodes = plan.num_decodes
        attended = sum(plan.starts[:decodes])
        for start, count in zip(plan.starts[decodes:], plan.counts[decodes:], strict=True):
            attended += count * start + count * count // 2
        self.cost.observe(StepShape(decodes, plan.num_tokens - decodes, attended), seconds)
