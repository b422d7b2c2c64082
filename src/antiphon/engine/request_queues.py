"""`RequestQueues`: waiting and running requests of one model, with the rows and the host memory that they share."""

from __future__ import annotations

from bisect import insort

from antiphon.engine.kv.swap import SwapSpace
from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import Request, RequestState


class RequestQueues:
    """Queues and rows that the scheduler owns and the planner works on. Only running requests have a row."""

    def __init__(self, policy: Policy, max_running: int, swap_bytes: int) -> None:
        self.policy = policy
        self.num_rows = max_running
        self.waiting: dict[str, Request] = {}
        self.running: list[Request] = []  # by rank
        self.free_rows = list(range(max_running - 1, -1, -1))
        self.swap = SwapSpace(swap_bytes)

    def start(self, request: Request) -> None:
        """Run a request that was removed from `waiting`. A row must be free."""
        request.row = self.free_rows.pop()
        request.state = RequestState.RUNNING
        insort(self.running, request, key=self.policy.rank)

    def send_back(self, request: Request) -> None:
        """Move a running request back to `waiting`; its row is free at once."""
        self.running.remove(request)
        self.free_rows.append(request.row)
        request.row = -1
        request.state = RequestState.WAITING
        self.waiting[request.id] = request

    def check_integrity(self, ending: list[Request]) -> None:
        """Assert that rows, states and swapped copies agree; `ending` are ended requests that still hold a row."""
        rows = [request.row for request in [*self.running, *ending]]
        assert sorted(rows + self.free_rows) == list(range(self.num_rows)), "rows are lost or given twice"
        assert all(request.state is RequestState.RUNNING and not request.is_ended for request in self.running)
        assert all(request.state is RequestState.WAITING and request.row < 0 for request in self.waiting.values())
        self.swap.check_integrity({r.sequence for r in self.waiting.values() if r.swapped})
        ranks = [self.policy.rank(request) for request in self.running]
        assert ranks == sorted(ranks), "running requests are out of order"
