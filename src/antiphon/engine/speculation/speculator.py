"""`Speculator`: how many drafted tokens the requests of a step compute beside their newest one."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.request import Request
from antiphon.engine.speculation.acceptance import Acceptance
from antiphon.engine.speculation.drafting import Draft, Drafting

#: Drafted tokens of one request in a step.
LONGEST_DRAFT = 16
#: The time of a drafted token as a part of a step's, before one has been measured.
FIRST_ROW_SHARE = 0.3


class Speculator:
    """Drafts for the requests of one model, while they make its steps give more tokens a second.

    A step of C seconds gives T tokens; a drafted token with probability p of being drawn costs c more seconds. It pays
    if (T + p) / (C + c) is more than T / C, so tokens are added in the order of their probabilities until p falls below
    c · T / C. In a full batch C / T is no more than c, and nothing is drafted.
    """

    def __init__(self, cost: CostModel) -> None:
        self._cost = cost
        self._acceptance = Acceptance()

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
        """How many tokens of each draft pay."""
        step, row = self._cost.draft_costs(StepShape(num_answering, 0, context))
        share = row / step if row > 0.0 and step > 0.0 else FIRST_ROW_SHARE  # of the step's time without drafts
        lengths = [0] * len(drafts)
        tokens, seconds = float(num_answering), 1.0
        candidates = [(-draft.probabilities[0], place) for place, draft in enumerate(drafts)]
        heapq.heapify(candidates)
        while candidates and room > 0:
            negative, place = heapq.heappop(candidates)
            if -negative * seconds <= share * tokens:
                break
            tokens, seconds, room = tokens - negative, seconds + share, room - 1
            lengths[place] += 1
            probabilities = drafts[place].probabilities
            if lengths[place] < len(probabilities):
                heapq.heappush(candidates, (-probabilities[lengths[place]], place))
        return lengths


NO_DRAFT = Draft([], [])
