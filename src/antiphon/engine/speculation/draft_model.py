"""`DraftModel`: a smaller model that drafts tokens for the requests of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import DRAFTING, RowSetup, StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams

#: Assumed cost of a prefill token as a fraction of a pass, before one was measured.
FIRST_PROMPT_SHARE = 0.1

#: Sampling settings that drafted tokens depend on.
DRAFT_SETTINGS = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "logit_bias", "allowed_tokens", "banned_tokens", "seed",
    "max_tokens",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Twin:
    """Request as the draft model computes it: the same tokens, in blocks of its own."""

    request: Request
    drafted: list[int] = field(default_factory=list)  # computed tokens behind the request's own ones

    def settle(self) -> None:
        """Keep the drafted tokens that became the request's tokens as computed; discard the others."""
        own = self.request
        for token in self.drafted:
            if own.num_computed_tokens >= own.num_tokens - 1 or own.tokens[own.num_computed_tokens] != token:
                break
            own.num_computed_tokens += 1
        self.drafted = []


class DraftModel:
    """Planner of a draft model's steps for the requests of another model. Its blocks come from the same arena.

    A drafting step computes the tokens of each request that the draft model has not seen and samples a token, then one
    more in each further pass. Tokens are sampled with the seed, the index and the sampling settings of the request, so
    that a drafted token equals the request's wherever the two models agree. Penalties, minimum lengths and grammars are
    left to verification.
    """

    def __init__(self, name: str, kv: KVManager, max_tokens: int, chunk_tokens: int, weight_share: float) -> None:
        self.name, self.kv = name, kv
        self._max_tokens, self._chunk_tokens = max_tokens, chunk_tokens
        self._weight_share = weight_share  # bytes of its weights relative to the other model's
        self._cost = CostModel()
        self._twins: dict[str, Twin] = {}  # by request id
        self._ending: list[Request] = []  # twins of requests that ended with a drafting step in flight

    def may_draft(self, request: Request, passes: int) -> bool:
        """Return whether the request's text and the drafts fit the model's context."""
        return request.num_tokens + passes <= self._max_tokens

    def num_behind(self, request: Request) -> int:
        """Return the number of the request's tokens that the model has not computed, including the newest."""
        twin = self._twins.get(request.id)
        if twin is None:
            return request.num_tokens
        twin.settle()
        return request.num_tokens - twin.request.num_computed_tokens

    def costs(self, step_seconds: float, num_requests: int, context: int) -> tuple[float, float]:
        """Return the seconds of a pass, and of one more prefill token in it.

        Until they are measured, both are estimated from the models' sizes.
        """
        seconds, _ = self._cost.draft_costs(StepShape(num_requests, 0, context))
        seconds = seconds or self._weight_share * step_seconds
        return seconds, self._cost.prefill_cost or FIRST_PROMPT_SHARE * seconds

    def plan(self, requests: Sequence[Request], passes: int, plan: StepPlan) -> bool:
        """Make this empty plan a drafting step of `passes` tokens; return False if no request has room for drafts.

        A request that is far behind advances by a chunk, alone, and gets drafts when it has caught up.
        """
        late = next((one for one in requests if self.num_behind(one) > self._chunk_tokens), None)
        if late is not None:
            requests, passes = [late], 1
        found = [twin for request in requests if (twin := self._grown(request, passes, plan)) is not None]
        found.sort(key=lambda twin: twin.num_behind)  # requests one token behind come first, as decodes
        for twin in found:
            count = min(twin.num_behind, self._chunk_tokens)
            plan.add(twin, count, samples=late is None)
            plan.num_decodes += count == 1 and late is None
            twin.num_in_flight_tokens += count
            tables = [self.kv.table_entries(twin, group) for group in range(len(self.kv.groups))]
            plan.row_setups.append(RowSetup(twin, tables))
        plan.table_updates.clear()  # the row setups include them
        if not found:
            plan.moves.clear()
            return False
        plan.stage, plan.passes, plan.is_awaited = DRAFTING, passes, True
        return True

    def _grown(self, request: Request, passes: int, plan: StepPlan) -> Request | None:
        """Return the request's twin with room for its tokens and drafts; None if there is no room."""
        twin = self._twins.get(request.id)
        if twin is None:
            twin = self._twins[request.id] = Twin(_twin_of(request, self.name))
            self.kv.attach_prefix(twin.request)
        twin.settle()
        own = twin.request
        own.row = request.row
        self.kv.remember(own)
        self.kv.drop_out_of_window(own)
        is_late = own.num_behind > self._chunk_tokens
        length = own.num_computed_tokens + self._chunk_tokens if is_late else own.num_tokens + passes - 1
        if not self.kv.grow(own, length, plan, may_pack=False):
            self.release(request)
            return None
        return own

    def commit(self, plan: StepPlan, result: StepResult) -> dict[str, list[int]]:
        """Commit a drafting step; return its drafts by request id, or none if the step only caught up."""
        count = len(plan.requests)
        drafts: dict[str, list[int]] = {}
        for entry, own in enumerate(plan.requests):
            own.num_in_flight_tokens -= plan.counts[entry]
            own.num_computed_tokens += plan.counts[entry]
            if own in self._ending:
                self._free(own)
            elif plan.samples[entry]:
                drafts[own.id] = result.tokens[entry::count]
                self._twins[own.id].drafted = drafts[own.id][: plan.passes - 1]
        return drafts

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Add a step's measured time to the costs, divided by its passes."""
        passes, count = plan.passes, len(plan.requests)
        attended = sum(plan.starts) * passes + sum(plan.counts) * (passes - 1)
        caught_up = sum(plan.counts) - count
        shape = StepShape(count, round(caught_up / passes), attended // passes)
        self._cost.observe(shape, seconds / passes)

    def fail(self, plan: StepPlan) -> None:
        """Release the twins of a drafting step that raised. The requests themselves lose nothing."""
        for own in plan.requests:
            own.num_in_flight_tokens = 0
            self._twins.pop(own.id, None)
            self._free(own)

    def release(self, request: Request) -> None:
        """Free the blocks that the model holds for a request; if a step is in flight, when that step is committed."""
        twin = self._twins.pop(request.id, None)
        if twin is not None and twin.request.num_in_flight_tokens:
            self._ending.append(twin.request)
        elif twin is not None:
            self.kv.release(twin.request)

    def release_last(self, running: Sequence[Request]) -> bool:
        """Free the twin of the last request with an idle twin; return False if no request has one."""
        for request in reversed(running):
            twin = self._twins.get(request.id)
            if twin is not None and not twin.request.num_in_flight_tokens:
                self.release(request)
                return True
        return False

    def _free(self, own: Request) -> None:
        if own in self._ending:
            self._ending.remove(own)
        self.kv.release(own)

    def close(self) -> None:
        self.kv.close()

    def check_integrity(self) -> None:
        self.kv.check_integrity([*(twin.request for twin in self._twins.values()), *self._ending])


def _twin_of(request: Request, model: str) -> Request:
    """Return a request with the same id, the same token list, and the settings that drafted tokens depend on."""
    settings = SamplingParams(**{name: getattr(request.params, name) for name in DRAFT_SETTINGS})
    twin = Request(request.id, model, request.prompt, settings, cache_salt=request.cache_salt)
    twin.tokens = request.tokens
    return twin
