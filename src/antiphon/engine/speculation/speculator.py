"""`Speculator`: how many drafted tokens the requests of a step compute beside their newest one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import count, islice

from antiphon.engine.cost_model import FIRST_ROW_SHARE, CostModel, StepShape
from antiphon.engine.request import Request
from antiphon.engine.row_steps import MOST_ROWS
from antiphon.engine.speculation.acceptance import Acceptance
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.speculation.drafting import Draft, Drafting
from antiphon.engine.speculation.passes import Candidate, DraftingCosts, best_passes

#: Drafted tokens of one request in a step.
LONGEST_DRAFT = 16
#: The part of the time that may be spent to learn whether a draft model pays again, and the tokens of such a trial.
TRIAL_SHARE, TRIAL_PASSES = 0.01, 2
#: Searches for drafts that a step has time for before the tokens of the last one are known.
SEARCHES_A_STEP = 16


class Speculator:
    """Drafts for the requests of one model, while they make its steps give more tokens a second.

    A step of C seconds gives T tokens; a drafted token with probability p of being drawn costs c more seconds. It pays
    if (T + p) / (C + c) is more than T / C, so tokens are added in the order of their probabilities, up to where the
    tokens of the step come fastest. In a full batch C / T is no more than c, and nothing is drafted.

    A draft model costs passes of its own before the step: `best_passes` compares both ways.

    On a GPU a step is planned before the tokens of the one before are known, so requests with drafts must wait for
    theirs: `waiting` says when that pays.
    """

    def __init__(self, cost: CostModel, model: DraftModel | None = None) -> None:
        self._cost = cost
        self._model = model
        self._acceptance = Acceptance()
        self._unspent = 0.0  # seconds that trials of the draft model may take
        self._unspent_late = 0.0  # and trials of late steps
        self._rest = 0  # steps that are planned before requests may wait for their tokens again

    def passes(self, requests: Sequence[Request], num_answering: int, context: int) -> tuple[list[Request], int]:
        """The requests that the draft model should draft for before the next step, and how many tokens.

        These are all known to their newest token, of `num_answering` that attend to `context` tokens.
        """
        model = self._model
        assert model is not None
        able = [one for one in requests if model.may_draft(one, TRIAL_PASSES) and one.limit - one.num_tokens > 1]
        step, row = self._step_costs(num_answering, context)
        if not able or not step:
            return [], 0  # what a step takes is not known yet
        seconds, prompt = model.costs(step, len(able), context)
        costs = DraftingCosts(row, seconds / step, prompt / step)
        candidates = [self._candidate(one, num_answering, context) for one in able]
        passes, places = best_passes(candidates, num_answering - len(able), costs)
        if not passes:
            self._unspent += TRIAL_SHARE * step
            place = min(range(len(able)), key=lambda place: candidates[place].num_behind)
            trial = (candidates[place].num_behind - 1) * prompt + TRIAL_PASSES * (seconds + row * step)
            if trial > self._unspent:
                return [], 0
            self._unspent, passes, places = 0.0, TRIAL_PASSES, [place]
        chosen = [able[place] for place in places if model.may_draft(able[place], passes)]
        return chosen, min(passes, max((one.limit - one.num_tokens - 1 for one in chosen), default=0))

    def _candidate(self, request: Request, num_answering: int, context: int) -> Candidate:
        assert self._model is not None
        draft = self._search(request)
        length = self._lengths([draft], num_answering, context, LONGEST_DRAFT)[0] if draft.tokens else 0
        assert request.drafting is not None
        return Candidate(
            1.0 + sum(draft.probabilities[:length]),
            length,
            request.drafting.probability_drawn(),
            self._model.num_behind(request),
            request.limit - request.num_tokens,
        )

    def _step_costs(self, num_answering: int, context: int) -> tuple[float, float]:
        """Seconds of a step without drafts, 0.0 if they are not known yet, and the part of it that a row takes."""
        step, row = self._cost.draft_costs(StepShape(num_answering, 0, context, is_late=True))
        return step, row / step if self._cost.has_drafted and step > 0.0 else FIRST_ROW_SHARE

    def drafts(self, requests: Sequence[Request], num_answering: int, context: int, room: int) -> dict[int, list[int]]:
        """The drafts of some of these requests by their places, at most `room` tokens in all.

        `num_answering` requests, those without drafts included, draw a token in the step and attend to `context`
        tokens.
        """
        found: list[tuple[int, Draft]] = []
        for place, request in enumerate(requests):
            draft = self._search(request)
            if draft.tokens:
                found.append((place, draft))
        if not found:
            return {}
        lengths = self._lengths([draft for _, draft in found], num_answering, context, room)
        chosen: dict[int, list[int]] = {}
        for (place, draft), length in zip(found, lengths, strict=True):
            tokens = draft.tokens[:length]
            constraint = requests[place].constraint
            if tokens and constraint is not None:
                tokens = tokens[: constraint.num_allowed(tokens)]
            if tokens:
                chosen[place] = tokens
        return chosen

    def waiting(self, running: Sequence[Request]) -> set[int]:
        """Of requests whose newest token is being drawn, those that the next step should leave out, by their identity.

        They have a draft when that token is known. If all wait for theirs, the next step begins late; if others go on,
        those that wait compute tokens in every second step.
        """
        if not any(one.speculates and one.num_pending_samples for one in running):
            return set()
        able = [one for one in running if one.num_behind > 0]  # with a draft in flight, one is not
        pending = [one for one in able if one.speculates and one.num_pending_samples and one.is_one_line]
        self._rest -= 1
        if not pending or self._rest >= 0:
            return set()
        found = [(one, draft) for one in pending if (draft := _behind_first(self._search(one))).tokens]
        context = sum(one.num_tokens for one in running)
        step = next(self._cost.draft_seconds(StepShape(len(running), 0, context)))
        chosen: list[Request] = []
        if found and step > 0.0:
            room = LONGEST_DRAFT * len(found)
            lengths = self._lengths([draft for _, draft in found], len(running), context, room)
            gains = [sum(draft.probabilities[:length]) for (_, draft), length in zip(found, lengths, strict=True)]
            late = next(islice(self._draft_seconds(len(running), context), sum(lengths), None))
            if len(pending) == len(able) and self._pays(len(running), step, len(running) + sum(gains), late):
                chosen = pending
            else:
                more = late / step - 1.0  # of the time of a step
                chosen = [one for (one, _), gain in zip(found, gains, strict=True) if gain > 1.0 + more]
        if not chosen:
            self._rest = len(pending) // SEARCHES_A_STEP
        return set(map(id, chosen))

    def _pays(self, tokens: float, seconds: float, tokens_late: float, seconds_late: float) -> bool:
        """Whether more tokens come in a second if the step begins late; or for trial, to learn what that costs."""
        if tokens_late > tokens and tokens_late * seconds > tokens * seconds_late:
            return True
        self._unspent_late += TRIAL_SHARE * seconds
        if tokens_late == tokens or seconds_late - seconds > self._unspent_late:
            return False
        self._unspent_late = 0.0
        return True

    def _search(self, request: Request) -> Draft:
        """What may follow the request's last token. A token that ends it is drawn from the row before it."""
        if request.drafting is None:
            request.drafting = Drafting(request.prompt, request.guess, self._acceptance)
            for token in request.output:  # the first was drawn with the prompt
                request.drafting.append(token)
        most = min(LONGEST_DRAFT, request.limit - request.num_tokens - 1)
        if most < 1:
            return NO_DRAFT
        forced = () if request.constraint is None else request.constraint.forced()
        draft = request.drafting.propose(most, forced)
        ends = next((at for at, token in enumerate(draft.tokens) if token in request.stop_ids), None)
        return draft if ends is None else Draft(draft.tokens[:ends], draft.probabilities[:ends])

    def _lengths(self, drafts: Sequence[Draft], num_answering: int, context: int, room: int) -> list[int]:
        """How many tokens of each draft pay: the most probable ones, up to where tokens come fastest."""
        seconds = self._draft_seconds(num_answering, context)
        candidates = [(-draft.probabilities[0], place) for place, draft in enumerate(drafts)]
        heapq.heapify(candidates)
        added: list[int] = []  # the draft of each token
        lengths = [0] * len(drafts)
        tokens = float(num_answering)
        best, num_best = tokens / next(seconds), 0
        rate = best
        while candidates and len(added) < room:
            negative, place = heapq.heappop(candidates)
            tokens -= negative
            added.append(place)
            lengths[place] += 1
            before, rate = rate, tokens / next(seconds)
            if rate > best:
                best, num_best = rate, len(added)
            elif rate <= before and num_answering + len(added) > MOST_ROWS + 1:
                break  # from here on every row costs the same, and none is more probable
            probabilities = drafts[place].probabilities
            if lengths[place] < len(probabilities):
                heapq.heappush(candidates, (-probabilities[lengths[place]], place))
        for place in added[num_best:]:
            lengths[place] -= 1
        return lengths

    def _draft_seconds(self, num_answering: int, context: int) -> Iterator[float]:
        """Seconds of a late step with 0, 1, 2, … drafted tokens, in parts of one before a step was measured."""
        shape = StepShape(num_answering, 0, context, is_late=True)
        step, _ = self._cost.draft_costs(shape)
        if self._cost.has_drafted and step > 0.0:
            return self._cost.draft_seconds(shape)
        return count(step or 1.0, FIRST_ROW_SHARE * (step or 1.0))


NO_DRAFT = Draft([], [])


def _behind_first(draft: Draft) -> Draft:
    """What follows the first token, which is being drawn; it is as probable as before."""
    return Draft(draft.tokens[1:], draft.probabilities[1:])
