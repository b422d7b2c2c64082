"""When a draft model drafts: against a search, and off where it does not pay."""

from __future__ import annotations

import itertools
import random

import pytest

from antiphon.engine.speculation.passes import (
    HORIZON,
    MARGIN,
    MOST_PASSES,
    DraftCandidate,
    DraftingCosts,
    best_passes,
    expected_tokens,
)


def alone(probability: float, **fields: float) -> DraftCandidate:
    values: dict[str, float] = {"tokens": 1.0, "rows": 0, "num_behind": 1, "num_left": 100, **fields}
    return DraftCandidate(probability=probability, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_no_other_choice_gives_more_tokens_a_second(seed: int) -> None:
    source = random.Random(seed)
    costs = DraftingCosts(source.uniform(0.02, 0.3), source.uniform(0.05, 0.5), 0.02)
    candidates = [
        alone(source.uniform(0.2, 0.98), tokens=1 + source.choice([0.0, 1.5]), rows=source.choice([0, 2]))
        for _ in range(3)
    ]
    others = source.choice([0, 2])

    def seconds(passes: int, chosen: tuple[int, ...]) -> float:
        tokens, time = float(others), 1.0 + passes * costs.drafting * bool(chosen)
        for index, one in enumerate(candidates):
            is_chosen = index in chosen
            tokens += expected_tokens(one.probability, passes) if is_chosen else one.tokens
            time += costs.row * (passes if is_chosen else one.rows)
        return time / tokens

    plain = seconds(0, ())
    subsets = [chosen for size in range(1, 4) for chosen in itertools.combinations(range(3), size)]
    best = min(seconds(passes, chosen) for passes in range(1, MOST_PASSES + 1) for chosen in subsets)
    found = best_passes(candidates, others, costs)
    passes, indexes = found.count, found.indexes
    if not passes:
        assert best > 0.93 * plain / MARGIN  # which requests are drafted for is not searched for
    else:
        assert seconds(passes, tuple(indexes)) == pytest.approx(best, rel=0.08)
        assert seconds(passes, tuple(indexes)) < plain / MARGIN


def test_a_model_as_slow_as_the_other_never_pays() -> None:
    assert not best_passes([alone(0.99)], 0, DraftingCosts(row=0.1, drafting=1.0, prompt=0.1)).count


def test_a_draft_without_a_model_is_preferred_where_it_gives_more() -> None:
    costs = DraftingCosts(row=0.05, drafting=0.1, prompt=0.01)
    repeated = alone(0.3, tokens=2.5, rows=2)
    assert not best_passes([repeated], 0, costs).count
    found = best_passes([repeated, alone(0.95)], 0, costs)
    passes, indexes = found.count, found.indexes
    assert passes and indexes == [1]


def test_catching_up_must_be_paid_for() -> None:
    costs = DraftingCosts(row=0.1, drafting=0.2, prompt=0.1)
    assert best_passes([alone(0.8, num_left=HORIZON)], 0, costs).count
    assert best_passes([alone(0.8, num_behind=200, num_left=HORIZON)], 0, costs).count
    assert not best_passes([alone(0.8, num_behind=200, num_left=20)], 0, costs).count
    assert not best_passes([alone(0.8, num_behind=20_000, num_left=100_000)], 0, costs).count
