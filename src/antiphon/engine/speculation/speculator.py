"""`Speculator`: number of drafted tokens that each request of a step computes beside its newest one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from antiphon.engine.cost_model import FIRST_ROW_SHARE, CostModel, StepShape
from antiphon.engine.request import Request
from antiphon.engine.row_steps import MOST_ROWS
from antiphon.engine.speculation.acceptance import Acceptance
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.speculation.drafting import Draft, Drafting
from antiphon.engine.speculation.passes import MARGIN, DraftCandidate, DraftingCosts, Passes, best_passes

#: Maximum drafted tokens of one request in a step.
LONGEST_DRAFT = 16
#: Fraction of the time that may be spent on trials of a draft model that does not pay, and the tokens of a trial.
TRIAL_SHARE, TRIAL_PASSES = 0.01, 2
#: Searches for drafts that fit into the time of a step.
SEARCHES_A_STEP = 16
#: Searches for drafts that take as long as evaluating the draft model for one request.
SEARCHES_A_CHOICE = 3


@dataclass(frozen=True, slots=True)
class _Choice:
    """Evaluation of the draft model for the requests of a step."""

    able: list[Request]
    passes: Passes
    step: float  # seconds of the step without drafts
    index: int  # index of the request with the shortest trial
    trial: float  # seconds of that trial


class Speculator:
    """Drafts for the requests of one model, limited to those that raise the model's token rate.

    A step of C seconds gives T tokens; a drafted token with acceptance probability p costs c more seconds. It pays if
    (T + p) / (C + c) is more than T / C, so tokens are added in the order of their probabilities, up to the highest
    token rate. In a full batch C / T is at most c, and nothing is drafted.

    A draft model costs passes of its own before the step: `best_passes` compares both ways.

    On a GPU a step is planned before the tokens of the one before are known, so requests with drafts must wait for
    theirs: `waiting` decides when that pays.
    """

    def __init__(self, cost: CostModel, model: DraftModel | None = None) -> None:
        self._cost = cost
        self._model = model
        self._acceptance = Acceptance()
        self._unspent = 0.0  # seconds that trials of the draft model may take
        self._unspent_late = 0.0  # seconds that trials of late steps may take
        self._rest = 0  # steps until requests may wait for their tokens again
        self._steps = 1  # planned steps since the last evaluation

    def passes(self, requests: Sequence[Request], num_answering: int, context: int) -> tuple[list[Request], int]:
        """Return the requests that the draft model should draft for before the next step, and the number of tokens.

        The newest token of each of the `requests` is known; `num_answering` requests of the step attend to `context`
        tokens.
        """
        choice = self._choice(requests, num_answering, context)
        if choice is None:
            return [], 0
        passes, indexes = choice.passes.count, choice.passes.indexes
        if not passes:
            self._unspent += TRIAL_SHARE * choice.step
            if choice.trial > self._unspent:
                return [], 0
            self._unspent, passes, indexes = 0.0, TRIAL_PASSES, [choice.index]
        model = self._model
        assert model is not None
        chosen = [choice.able[index] for index in indexes if model.may_draft(choice.able[index], passes)]
        return chosen, min(passes, max((one.limit - one.num_tokens - 1 for one in chosen), default=0))

    def _choice(self, requests: Sequence[Request], num_answering: int, context: int) -> _Choice | None:
        """Evaluate the draft model for these requests; None if it can draft for none or no step was measured yet."""
        model = self._model
        assert model is not None
        able = [one for one in requests if model.may_draft(one, TRIAL_PASSES) and one.limit - one.num_tokens > 1]
        step, row = self._step_costs(num_answering, context)
        if not able or not step:
            return None
        seconds, prompt = model.costs(step, len(able), context)
        costs = DraftingCosts(row, seconds / step, prompt / step)
        candidates = [self._candidate(one, num_answering, context) for one in able]
        passes = best_passes(candidates, num_answering - len(able), costs)
        index = min(range(len(able)), key=lambda index: candidates[index].num_behind)
        trial = (candidates[index].num_behind - 1) * prompt + TRIAL_PASSES * (seconds + row * step)
        return _Choice(able, passes, step, index, trial)

    def _candidate(self, request: Request, num_answering: int, context: int) -> DraftCandidate:
        assert self._model is not None
        draft = self._search(request)
        length = self._lengths([draft], num_answering, context, LONGEST_DRAFT)[0] if draft.tokens else 0
        assert request.drafting is not None
        return DraftCandidate(
            1.0 + sum(draft.probabilities[:length]),
            length,
            request.drafting.probability_drawn(),
            self._model.num_behind(request),
            request.limit - request.num_tokens,
        )

    def _step_costs(self, num_answering: int, context: int) -> tuple[float, float]:
        """Return the seconds of a step without drafts, and the cost of a drafted token relative to it.

        The seconds are 0.0 until a step was measured.
        """
        step, row = self._cost.draft_costs(StepShape(num_answering, 0, context, is_late=True))
        return step, row / step if self._cost.has_drafted and step > 0.0 else FIRST_ROW_SHARE

    def drafts(self, requests: Sequence[Request], num_answering: int, context: int, room: int) -> dict[int, list[int]]:
        """Return the drafts that pay by index of the request, at most `room` tokens in all.

        `num_answering` requests, including those without drafts, sample a token in the step and attend to `context`
        tokens.
        """
        found: list[tuple[int, Draft]] = []
        for index, request in enumerate(requests):
            draft = self._search(request)
            if draft.tokens:
                found.append((index, draft))
        chosen: dict[int, list[int]] = {}
        lengths = self._lengths([draft for _, draft in found], num_answering, context, room) if found else []
        for (index, draft), length in zip(found, lengths, strict=True):
            tokens = draft.tokens[:length]
            constraint = requests[index].constraint
            if tokens and constraint is not None:
                tokens = tokens[: constraint.num_allowed(tokens)]
            if tokens:
                chosen[index] = tokens
        for index, request in enumerate(requests):
            if request.drafting is not None:
                request.drafting.plan(index in chosen)
        return chosen

    def waiting(self, running: Sequence[Request]) -> set[int]:
        """Return the identities of the running requests that the next step should leave out.

        Their newest token is being sampled, and once it is known they have a draft. If all requests wait, the next step
        begins late; if others go on, those that wait compute tokens in every second step.
        """
        if not any(one.speculates and one.num_pending_samples for one in running):
            return set()
        able = [one for one in running if one.num_behind > 0]  # a request with a draft in flight is not behind
        pending = [one for one in able if one.speculates and one.num_pending_samples and one.is_one_line]
        self._rest -= 1
        if not pending or self._rest >= 0:
            return set()
        context = sum(one.num_tokens for one in running)
        step = next(self._cost.draft_seconds(StepShape(len(running), 0, context)))
        if step <= 0.0:
            return set()
        if self._drafting_pays(able, running, context, step):
            return set(map(id, able))
        chosen = self._drafted_behind(pending, len(pending) == len(able), len(running), context, step)
        if not chosen:
            drafters = 0 if self._model is None else sum(one.uses_draft_model for one in pending)
            self._rest = (len(pending) + SEARCHES_A_CHOICE * drafters) // SEARCHES_A_STEP
            self._steps = self._rest + 1
        return set(map(id, chosen))

    def _drafted_behind(
        self, pending: Sequence[Request], is_all: bool, num_running: int, context: int, step: float
    ) -> Sequence[Request]:
        """Return the requests whose newest token is being sampled and whose n-grams after it are worth waiting for.

        `is_all` means that no other request can compute a token meanwhile. A step of `num_running` requests takes
        `step` seconds.
        """
        found = [(one, draft) for one in pending if (draft := _behind_first(self._search(one))).tokens]
        if not found:
            return ()
        lengths = self._lengths([draft for _, draft in found], num_running, context, LONGEST_DRAFT * len(found))
        gains = [sum(draft.probabilities[:length]) for (_, draft), length in zip(found, lengths, strict=True)]
        late = next(islice(self._draft_seconds(num_running, context), sum(lengths), None))
        late += self._late_after([draft for _, draft in found], num_running) if sum(lengths) else 0.0
        if is_all and self._pays(num_running, step, num_running + sum(gains), late):
            return pending
        more = late / step - 1.0  # extra time, as a fraction of a step
        return [one for (one, _), gain in zip(found, gains, strict=True) if gain > 1.0 + more]

    def _drafting_pays(self, able: Sequence[Request], running: Sequence[Request], context: int, seconds: float) -> bool:
        """Return whether all requests should wait for their newest tokens and then for the draft model's tokens.

        A step that waits for none takes `seconds`.
        """
        drafters = [] if self._model is None else [one for one in able if one.uses_draft_model and one.is_one_line]
        if not drafters or len(able) < len(running) or not all(one.num_pending_samples for one in able):
            return False
        choice = self._choice(drafters, len(running), context)
        if choice is None:
            return False
        if choice.passes.count and choice.passes.seconds * choice.step * len(running) * MARGIN < seconds:
            return True
        self._unspent += TRIAL_SHARE * seconds * self._steps
        return choice.trial + max(0.0, choice.step - seconds) <= self._unspent

    def _pays(self, tokens: float, seconds: float, tokens_late: float, seconds_late: float) -> bool:
        """Return whether the late step has the higher token rate, or is due as a trial that measures its cost."""
        if tokens_late > tokens and tokens_late * seconds > tokens * seconds_late:
            return True
        self._unspent_late += TRIAL_SHARE * seconds
        if tokens_late == tokens or seconds_late - seconds > self._unspent_late:
            return False
        self._unspent_late = 0.0
        return True

    def _search(self, request: Request) -> Draft:
        """Return the draft of the request up to a token that ends it, which would need no row of its own."""
        if request.drafting is None:
            request.drafting = Drafting(request.prompt, request.guess, self._acceptance)
            for token in request.output:  # the first token was sampled with the prompt
                request.drafting.append(token)
        most = min(LONGEST_DRAFT, request.limit - request.num_tokens - 1)
        if most < 1:
            return NO_DRAFT
        forced = () if request.constraint is None else request.constraint.forced()
        draft = request.drafting.propose(most, forced)
        ends = next((at for at, token in enumerate(draft.tokens) if token in request.stop_ids), None)
        return Draft(draft.tokens[:ends], draft.probabilities[:ends], request.drafting.alone)

    def _lengths(self, drafts: Sequence[Draft], num_answering: int, context: int, room: int) -> list[int]:
        """Return the number of tokens of each draft that pay: the most probable ones, up to the highest token rate."""
        seconds, after = self._draft_seconds(num_answering, context), self._late_after(drafts, num_answering)
        candidates = [(-draft.probabilities[0], index) for index, draft in enumerate(drafts)]
        heapq.heapify(candidates)
        added: list[int] = []  # index of the draft of each added token
        lengths = [0] * len(drafts)
        tokens = float(num_answering)
        best, num_best = tokens / next(seconds), 0
        rate = best
        while candidates and len(added) < room:
            negative, index = heapq.heappop(candidates)
            tokens -= negative
            added.append(index)
            lengths[index] += 1
            before, rate = rate, tokens / (next(seconds) + after)
            if rate > best:
                best, num_best = rate, len(added)
            elif rate <= before and num_answering + len(added) > MOST_ROWS + 1:
                break  # every further row costs the same, and no candidate is more probable
            probabilities = drafts[index].probabilities
            if lengths[index] < len(probabilities):
                heapq.heappush(candidates, (-probabilities[lengths[index]], index))
        for index in added[num_best:]:
            lengths[index] -= 1
        return lengths

    def _late_after(self, drafts: Sequence[Draft], num_answering: int) -> float:
        """Return the expected cost of drafts after the step that verifies them, in seconds.

        If all requests of that step have drafts, the next step is planned late. It would be late anyway if it has
        drafts too.
        """
        if len(drafts) < num_answering:
            return 0.0
        return self._cost.late_cost * sum(draft.alone for draft in drafts) / len(drafts)

    def _draft_seconds(self, num_answering: int, context: int) -> Iterator[float]:
        """Yield the seconds of a late step with 0, 1, 2, … drafted tokens.

        Until a step was measured, the unit is a step without drafts.
        """
        shape = StepShape(num_answering, 0, context, is_late=True)
        step, _ = self._cost.draft_costs(shape)
        if self._cost.has_drafted and step > 0.0:
            return self._cost.draft_seconds(shape)
        return count(step or 1.0, FIRST_ROW_SHARE * (step or 1.0))


NO_DRAFT = Draft([], [])


def _behind_first(draft: Draft) -> Draft:
    """Return the draft after its first token, which is being sampled; the probabilities stay as they were."""
    return Draft(draft.tokens[1:], draft.probabilities[1:], draft.alone)
