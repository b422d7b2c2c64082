"""`RequestBook`: the requests of one model, from their arrival to their end, with all that they hold."""

from __future__ import annotations

import heapq

from antiphon.engine.kv.manager import KVManager
from antiphon.engine.kv.swap import SwapSpace
from antiphon.engine.policies.policy import Policy
from antiphon.engine.request import FinishReason, Priority, Request, RequestState
from antiphon.engine.scheduler_config import SchedulerConfig, SchedulerCounters
from antiphon.errors import ContextLengthError, InvalidRequestError, OverloadedError


class RequestBook:
    """Who waits, runs and ends, and whose the rows, blocks and swapped copies are."""

    def __init__(
        self, model: str, kv: KVManager, policy: Policy, config: SchedulerConfig, max_model_tokens: int
    ) -> None:
        self.model = model
        self.kv = kv
        self.policy = policy
        self.config = config
        self.counters = SchedulerCounters()
        self.max_model_tokens = max_model_tokens
        self.waiting: dict[str, Request] = {}
        self.running: list[Request] = []  # by rank
        self.ending: dict[int, Request] = {}  # by order of arrival: ended while a step of theirs is in flight
        self.free_rows = list(range(config.max_running - 1, -1, -1))
        self.swap = SwapSpace(config.swap_bytes)
        self.deadlines: list[tuple[float, int, str]] = []
        self.rewritten: list[Request] = []  # whose rows no longer hold what the executor knows of them
        self._num_arrivals = 0

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
        """End a request now. Its blocks are free at once, or when the step that is computing it is committed."""
        request = self.get(request_id)
        if request is None:
            return False
        self.end(request, reason, now)
        return True

    def get(self, request_id: str) -> Request | None:
        return self.waiting.get(request_id) or next((r for r in self.running if r.id == request_id), None)

    def end(self, request: Request, reason: FinishReason, now: float, error: str | None = None) -> None:
        request.finish_reason = reason
        request.state = reason.state
        request.error = error
        request.marks.finished = now
        if self.waiting.pop(request.id, None) is None:
            self.running.remove(request)
        if request.num_in_flight_tokens:
            self.ending[request.sequence] = request
        else:
            self.forget(request)
        if request.on_end is not None:
            request.on_end(request)
        if request.beam is not None:  # nobody goes on without the others
            for other in request.beam.members:
                if not other.is_ended:
                    self.end(other, reason, now, error)

    def forget(self, request: Request) -> None:
        """Give back everything an ended request held."""
        if request.swapped:
            self.swap.drop(request)
        self.kv.release(request)
        if request.row >= 0:
            self.free_rows.append(request.row)
            request.row = -1

    def expire(self, now: float) -> None:
        while self.deadlines and self.deadlines[0][0] <= now:
            _, sequence, request_id = heapq.heappop(self.deadlines)
            request = self.get(request_id)
            if request is not None and request.sequence == sequence:
                self.end(request, FinishReason.DEADLINE, now)

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running or self.swap.has_dropped)

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

    def close(self, now: float) -> None:
        """End everybody and give every block back."""
        for request in [*self.waiting.values(), *self.running]:
            self.end(request, FinishReason.CANCELLED, now)
        self.kv.close()

    def check_integrity(self) -> None:
        """Blocks, rows and states agree with each other."""
        self.kv.check_integrity(self.requests())
        rows = [request.row for request in [*self.running, *self.ending.values()]]
        assert sorted(rows + self.free_rows) == list(range(self.config.max_running)), "rows are lost or given twice"
        assert all(request.state is RequestState.RUNNING and not request.is_ended for request in self.running)
        assert all(request.state is RequestState.WAITING and request.row < 0 for request in self.waiting.values())
        self.swap.check_integrity({r.sequence for r in self.waiting.values() if r.swapped})
        ranks = [self.policy.rank(request) for request in self.running]
        assert ranks == sorted(ranks), "running requests are out of order"
        for request in self.requests():
            assert not request.tables or request.num_computed_tokens <= len(request.tables[0]) * self.kv.block_tokens
