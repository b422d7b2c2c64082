"""How long drafts are: against a search over all lengths, by what was accepted, and off where they do not pay."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.request import Request
from antiphon.engine.sampling_params import SamplingParams
from antiphon.engine.speculation.acceptance import FORCED, Acceptance, kind_of
from antiphon.engine.speculation.draft_model import DraftModel
from antiphon.engine.speculation.drafting import FIRST_ALONE, Draft, DraftCounts, Drafting
from antiphon.engine.speculation.speculator import LONGEST_DRAFT, TRIAL_PASSES, Speculator


def fitted(step: float, row: float, decodes: int = 1) -> CostModel:
    """A machine on which a step of so many requests takes `step` seconds and every drafted token `row` more."""
    cost = CostModel()
    source = random.Random(0)
    for _ in range(200):
        drafted = source.choice([0, 0, 1, 3, 8])
        cost.observe(StepShape(decodes, 0, 0, drafted), step + row * drafted)
    return cost


def make(prompt: list[int], limit: int = 1000) -> Request:
    request = Request("r", "m", prompt, SamplingParams(max_tokens=limit), speculates=True)
    request.limit = len(prompt) + limit
    return request


@pytest.mark.parametrize("seed", range(12))
def test_lengths_give_the_most_tokens_a_second(seed: int) -> None:
    source = random.Random(seed)
    step, row = 0.02, source.choice([0.0005, 0.003, 0.006, 0.02])
    drafts = []
    for _ in range(2):
        each = source.uniform(0.3, 0.99)
        drafts.append(Draft(list(range(6)), [each**length for length in range(1, 7)]))
    chosen = Speculator(fitted(step, row, decodes=2))._lengths(drafts, 2, 0, room=100)

    def rate(lengths: tuple[int, ...]) -> float:
        tokens = 2 + sum(sum(draft.probabilities[:length]) for draft, length in zip(drafts, lengths, strict=True))
        return tokens / (step + row * sum(lengths))

    best = max(rate(lengths) for lengths in itertools.product(range(7), repeat=2))
    assert rate(tuple(chosen)) == pytest.approx(best, rel=1e-2)


def test_lengths_know_that_kernels_take_four_rows_at_a_time() -> None:
    """A line through these steps says that a fifth row pays as much as a fourth."""
    cost, source = CostModel(), random.Random(0)
    for _ in range(200):
        drafted = source.randrange(9)
        cost.observe(StepShape(1, 0, 1024, drafted), 0.002 + 0.01 * math.ceil((1 + drafted) / 4) + 0.001 * drafted)
    speculator = Speculator(cost)
    good, bad = Draft(list(range(9)), [0.99**length for length in range(1, 10)]), Draft([1, 2], [0.05, 0.002])
    assert speculator._lengths([good], 1, 1024, room=100) == [7]
    assert speculator._lengths([good], 1, 1024, room=5) == [3]
    assert speculator._lengths([bad], 1, 1024, room=100) == [0]


def test_a_full_batch_drafts_nothing() -> None:
    """Where every row of the batch costs the same, a drafted row can only cost more than it gives."""
    cost = CostModel()
    source = random.Random(1)
    for _ in range(200):
        decodes, drafted = source.randrange(1, 64), source.choice([0, 0, 2])
        cost.observe(StepShape(decodes, 0, 0, drafted), 0.001 * (decodes + drafted))
    draft = Draft([1, 2], [0.99, 0.98])
    assert Speculator(cost)._lengths([draft] * 32, 32, 0, room=1000) == [0] * 32


def with_steps_in_flight(late: float, drafts: float, model: DraftModel | None = None) -> Speculator:
    """A step takes 1 ms, `late` more if the one before was waited for, and `drafts` more with some."""
    cost, source = CostModel(), random.Random(0)
    for _ in range(400):
        drafted = source.choice([0, 0, 1, 3, 8, 15])
        is_late = drafted > 0 or source.random() < 0.2
        cost.observe(StepShape(1, 0, 0, drafted, is_late), 0.001 + late * is_late + drafts * (drafted > 0))
    return Speculator(cost, model)


def in_flight(prompt: list[int]) -> Request:
    """Its newest token is being drawn."""
    request = make(prompt)
    request.num_computed_tokens = len(prompt) - 1
    request.num_in_flight_tokens = request.num_pending_samples = 1
    return request


REPEATING, NEW = [*range(40), 0, 1, 2, 3, 4, 5, 6, 7], list(range(48))


def test_requests_wait_for_their_tokens_where_that_pays() -> None:
    repeating, new = in_flight(REPEATING), in_flight(NEW)
    assert with_steps_in_flight(0.0003, 0.0010).waiting([repeating]) == {id(repeating)}
    assert with_steps_in_flight(0.0003, 0.0010).waiting([new]) == set(), "it has no draft"
    assert with_steps_in_flight(0.0003, 0.0300).waiting([repeating]) == set(), "its draft costs more than it gives"
    assert with_steps_in_flight(0.0300, 0.0010).waiting([repeating]) == set(), "the late step does"
    known = make(REPEATING)
    assert with_steps_in_flight(0.0003, 0.0010).waiting([known]) == set(), "there is nothing to wait for"


def test_who_waits_beside_others_that_go_on() -> None:
    """Those compute tokens in every step, so that a request that waits must get more than one out of it."""
    repeating, plain = in_flight(REPEATING), in_flight(NEW)
    plain.speculates = False
    assert with_steps_in_flight(0.0001, 0.0005).waiting([repeating, plain]) == {id(repeating)}
    short = in_flight([1, 2, 3, 9, 8, 7, 1, 2])
    assert with_steps_in_flight(0.0001, 0.0001).waiting([short]) == {id(short)}
    assert with_steps_in_flight(0.0001, 0.0001).waiting([short, plain]) == set()


@pytest.mark.parametrize(("alone", "length"), [(0.0, 1), (1.0, 0)])
def test_a_step_that_is_late_behind_a_draft_is_paid_for_too(alone: float, length: int) -> None:
    """1.2 tokens in 1.6 ms are more than 1 in 1.6 ms, but not if the next step takes 0.6 ms more for it."""
    draft = Draft([1], [0.2], alone)
    speculator = with_steps_in_flight(0.0006, 0.0)
    assert speculator._lengths([draft], 1, 0, room=8) == [length]
    assert speculator._lengths([draft], 2, 0, room=8) == [1], "the other request goes on"


def test_how_often_a_draft_follows_another_is_learnt() -> None:
    drafting = Drafting([1, 2, 3], (), Acceptance())
    for is_drafted in (True, True, True, True):
        drafting.plan(is_drafted)
    often = drafting.alone
    for is_drafted in (False, False, False, True, False):
        drafting.plan(is_drafted)
    assert often < FIRST_ALONE
    assert drafting.alone > often


class QuickModel(DraftModel):
    """A draft model whose passes take so long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def may_draft(self, request: Request, passes: int) -> bool:
        return True

    def num_behind(self, request: Request) -> int:
        return 1

    def costs(self, step_seconds: float, num_requests: int, context: int) -> tuple[float, float]:
        return self._seconds, 0.0


def with_model(seconds: float) -> tuple[Speculator, Request]:
    request = in_flight(NEW)
    request.uses_draft_model = True
    return with_steps_in_flight(0.0003, 0.0001, QuickModel(seconds)), request


def test_requests_wait_for_a_draft_model_that_pays() -> None:
    speculator, request = with_model(0.00002)
    plain = in_flight(NEW)
    plain.speculates = False
    assert speculator.waiting([request]) == {id(request)}
    assert speculator.waiting([request, plain]) == {id(request), id(plain)}, "both are in the step after its own"
    prompt = make(NEW)
    assert speculator.waiting([request, prompt]) == set(), "a step computes the prompt meanwhile"
    request.num_pending_samples = request.num_in_flight_tokens = 0
    assert speculator.passes([request], 1, 0)[1] > 0


def test_a_draft_model_that_does_not_pay_is_tried_now_and_then() -> None:
    speculator, request = with_model(0.003)
    steps = waits = 0
    for _ in range(6000):
        steps += 1
        if speculator.waiting([request]):
            waits += 1
            request.num_pending_samples = request.num_in_flight_tokens = 0
            assert speculator.passes([request], 1, 0) == ([request], TRIAL_PASSES)
            request.num_pending_samples = request.num_in_flight_tokens = 1
    assert 4 <= waits <= 0.01 * steps


def test_a_request_with_a_draft_in_flight_is_not_asked_again() -> None:
    request = in_flight(REPEATING)
    request.num_in_flight_tokens = 4
    assert with_steps_in_flight(0.0003, 0.0010).waiting([request]) == set()


def test_many_requests_are_not_searched_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    speculator = with_steps_in_flight(0.0003, 0.0300)
    searched: list[Request] = []
    own = speculator._search

    def search(request: Request) -> Draft:
        searched.append(request)
        return own(request)

    monkeypatch.setattr(speculator, "_search", search)
    requests = [in_flight(REPEATING) for _ in range(64)]
    for _ in range(20):
        assert speculator.waiting(requests) == set()
    assert len(searched) == 4 * 64


def test_drafts_end_where_the_request_does() -> None:
    request = make([1, 2, 3, 4, 5, 6, 7, 8, 1, 2], limit=4)
    speculator = Speculator(fitted(0.02, 0.0001))
    assert speculator.drafts([request], 1, 0, room=100) == {0: [3, 4, 5]}, "three, and the token drawn after them"
    request.stop_ids = frozenset({5})
    assert speculator.drafts([request], 1, 0, room=100) == {0: [3, 4]}
    assert speculator.drafts([request], 1, 0, room=1) == {0: [3]}
    request.stop_ids = frozenset({3})
    assert speculator.drafts([request], 1, 0, room=100) == {}


def test_acceptance_is_learnt_without_computing_drafts() -> None:
    """A text that goes against its n-grams stops being drafted, and begins again when it repeats itself."""
    source = random.Random(2)
    pattern = [source.randrange(50) for _ in range(40)]
    request = make([*pattern, 50])
    speculator = Speculator(fitted(0.02, 0.006))

    def drafted(tokens: list[int]) -> int:
        total = 0
        for token in tokens:
            total += len(speculator.drafts([request], 1, 0, room=100).get(0, []))
            request.tokens.append(token)
            assert request.drafting is not None
            request.drafting.append(token)
        return total

    strangers = iter(range(100, 1000))
    misleading = [token for pair in itertools.pairwise(pattern) for token in (*pair, next(strangers))]
    drafted(misleading[:60])
    assert drafted(misleading[60:]) <= 6
    assert drafted(pattern + pattern) > 100


def test_a_request_begins_with_what_others_had() -> None:
    model = Acceptance()
    good, new = Acceptance(model), Acceptance(model)
    for _ in range(200):
        good.observe(0, True)
    assert new.probability(0) > 0.9 > new.probability(1)
    for _ in range(40):
        new.observe(0, False)
    assert new.probability(0) < 0.15 < good.probability(0)


def test_forced_tokens_come_first_and_are_counted_apart() -> None:
    drafting = Drafting([1, 2, 3, 4, 5, 1, 2], (), Acceptance())
    draft = drafting.propose(4, forced=[8, 1, 2])
    assert draft.tokens == [8, 1, 2, 3]
    expected = [drafting._acceptance.probability(kind) for kind in (FORCED, FORCED, FORCED, kind_of(2, False))]
    assert draft.probabilities == pytest.approx(list(itertools.accumulate(expected, lambda a, b: a * b)))
    before = drafting._acceptance.probability(FORCED)
    drafting.append(9)
    assert drafting._acceptance.probability(FORCED) < before


def test_counts_by_position() -> None:
    counts = DraftCounts()
    counts.add(3, 2)
    counts.add(5, 0)
    counts.add(1, 1)
    assert (counts.proposed, counts.accepted) == (9, 3)
    assert counts.proposed_at == [3, 2, 2, 1, 1] and counts.accepted_at == [2, 1, 0, 0, 0]


def test_a_draft_has_a_greatest_length() -> None:
    text = list(range(100))
    request = make([*text, 0, 1, 2, 3, 4])
    assert len(Speculator(fitted(0.02, 0.00001)).drafts([request], 1, 0, room=100)[0]) == LONGEST_DRAFT


def test_a_guess_goes_on_behind_the_token_that_was_drawn_with_the_prompt() -> None:
    request = make([1, 2, 3])
    request.guess = [7, 8, 9, 10]
    request.tokens.append(7)
    assert Speculator(fitted(0.02, 0.0001)).drafts([request], 1, 0, room=100) == {0: [8, 9, 10]}


def test_a_token_that_was_expected_in_vain_is_doubted() -> None:
    """As a name that is being replaced: drafts end before it, and only before it."""
    drafting = Drafting([1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3], (), Acceptance())
    before = drafting.propose(4)
    drafting.append(40)
    drafting.append(5)
    drafting.append(1)
    drafting.append(2)
    drafting.append(3)
    after = drafting.propose(4)
    assert before.tokens[0] == 4
    assert after.tokens[0] == 40, "the newest position is followed first"
    drafting.append(4)
    for token in (1, 2, 3):
        drafting.append(token)
    doubted = drafting.propose(2)
    assert doubted.tokens[0] == 4 and doubted.probabilities[0] <= 0.35
