"""`DraftModel`: a smaller model that drafts tokens, with its keys and values beside those of the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.kv.manager import KVManager
from antiphon.engine.plan import DRAFTING, RowSetup, StepPlan, StepResult
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams

#: The time of a token of a prompt as a part of a pass, before one has been measured.
FIRST_PROMPT_SHARE = 0.1

#: The sampling settings that a drafted token depends on.
DRAFT_SETTINGS = (
    "temperature", "top_k", "top_p", "min_p", "typical_p", "logit_bias", "allowed_tokens", "banned_tokens", "seed",
    "max_tokens",
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Twin:
    """A request as the draft model computes it: the same tokens, in blocks of its own."""

    request: Request
    drafted: list[int] = field(default_factory=list)  # tokens that were computed behind the request's own ones

    def settle(self) -> None:
        """Keep what was computed behind the request's tokens as far as these became its tokens."""
        own = self.request
        for token in self.drafted:
            if own.num_computed_tokens >= own.num_tokens - 1 or own.tokens[own.num_computed_tokens] != token:
                break
            own.num_computed_tokens += 1
        self.drafted = []


class DraftModel:
    """Plans the steps of a draft model for the requests of another. Its blocks come from the same arena.

    A drafting step computes what the model has not seen of each request and draws a token, and then in each further
    pass one more. A token is drawn with the seed, the index and the sampling settings of the request, so that it is the
    request's own wherever the two models agree. Penalties, a minimum length and a grammar are left to verification.
    """

    def __init__(self, name: str, kv: KVManager, max_tokens: int, chunk_tokens: int, weight_share: float) -> None:
        self.name, self.kv = name, kv
        self._max_tokens, self._chunk_tokens = max_tokens, chunk_tokens
        self._weight_share = weight_share  # bytes of its weights as a part of the other model's
        self._cost = CostModel()
        self._twins: dict[str, Twin] = {}  # by the id of the request
        self._ending: list[Request] = []  # twins of requests that ended while a step of theirs was in flight

    def may_draft(self, request: Request, passes: int) -> bool:
        """Whether the model takes a text of this length."""
        return request.num_tokens + passes <= self._max_tokens

    def num_behind(self, request: Request) -> int:
        """Tokens of the request that the model has not computed, the newest included."""
        twin = self._twins.get(request.id)
        if twin is None:
            return request.num_tokens
        twin.settle()
        return request.num_tokens - twin.request.num_computed_tokens

    def costs(self, step_seconds: float, num_requests: int, context: int) -> tuple[float, float]:
        """Seconds of a pass, and of one more token of a prompt in it; by the models' sizes until they are measured."""
        seconds, _ = self._cost.draft_costs(StepShape(num_requests, 0, context))
        seconds = seconds or self._weight_share * step_seconds
        return seconds, self._cost.prefill_cost or FIRST_PROMPT_SHARE * seconds

    def plan(self, requests: Sequence[Request], passes: int, plan: StepPlan) -> bool:
        """Make this empty plan a drafting step of so many tokens; False if there is no room for any of them.

        A request that is far behind advances by a chunk, alone, and is drafted for when it has caught up.
        """
        late = next((one for one in requests if self.num_behind(one) > self._chunk_tokens), None)
        if late is not None:
            requests, passes = [late], 1
        found = [twin for request in requests if (twin := self._grown(request, passes, plan)) is not None]
        found.sort(key=lambda twin: twin.num_behind)  # those one token behind are decodes
        for twin in found:
            count = min(twin.num_behind, self._chunk_tokens)
            plan.add(twin, count, samples=late is None)
            plan.num_decodes += count == 1 and late is None
            twin.num_in_flight_tokens += count
            tables = [self.kv.table_entries(twin, group) for group in range(len(self.kv.groups))]
            plan.row_setups.append(RowSetup(twin, tables))
        plan.table_updates.clear()  # the setups have them
        if not found:
            plan.moves.clear()
            return False
        plan.stage, plan.passes, plan.is_awaited = DRAFTING, passes, True
        return True

    def _grown(self, request: Request, passes: int, plan: StepPlan) -> Request | None:
        """The request's twin with room for its tokens and for drafts; None if there is none."""
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
        """The drafts of the step by the ids of the requests; of a step that only caught up, none."""
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
        """Add what the step took to the costs, for each pass."""
        passes, count = plan.passes, len(plan.requests)
        attended = sum(plan.starts) * passes + sum(plan.counts) * (passes - 1)
        caught_up = sum(plan.counts) - count
        shape = StepShape(count, round(caught_up / passes), attended // passes)
        self._cost.observe(shape, seconds / passes)

    def fail(self, plan: StepPlan) -> None:
        """A drafting step raised: what it was to compute is not there. The requests themselves lose nothing."""
        for own in plan.requests:
            own.num_in_flight_tokens = 0
            self._twins.pop(own.id, None)
            self._free(own)

    def release(self, request: Request) -> None:
        """Free what the model holds for a request; what a step in flight computes, when it is committed."""
        twin = self._twins.pop(request.id, None)
        if twin is not None and twin.request.num_in_flight_tokens:
            self._ending.append(twin.request)
        elif twin is not None:
            self.kv.release(twin.request)

    def release_last(self, running: Sequence[Request]) -> bool:
        """Free what is held for the last of these requests for which something is; False if there is none."""
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
    """The request with what a drafted token depends on. Its tokens are the same list."""
    settings = SamplingParams(**{name: getattr(request.params, name) for name in DRAFT_SETTINGS})
    twin = Request(request.id, model, request.prompt, settings, cache_salt=request.cache_salt)
    twin.tokens = request.tokens
    return twin
