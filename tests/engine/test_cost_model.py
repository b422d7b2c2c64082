"""The fitted cost of a step: close to the truth, stable in the long run, cautious beyond what was measured."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from antiphon.engine.cost_model import CostModel, StepShape


def truth(shape: StepShape) -> float:
    return 0.005 + 0.0002 * shape.decodes + 0.0001 * shape.prefill_tokens + 0.001 * shape.attended_tokens / 1024


def random_shape(rng: random.Random) -> StepShape:
    return StepShape(rng.randint(0, 16), rng.choice([0, 0, 64, 512]), rng.randint(0, 20_000))


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_predictions_come_close_to_a_linear_truth(noise: float) -> None:
    rng, model = random.Random(0), CostModel()
    for _ in range(300):
        shape = random_shape(rng)
        model.observe(shape, truth(shape) * (1 + noise * rng.uniform(-1, 1)))
    for _ in range(50):
        shape = random_shape(rng)
        assert model.predict(shape) == pytest.approx(truth(shape), rel=0.01 + noise)


def test_many_thousand_equal_steps_do_not_unsettle_it() -> None:
    rng, model = random.Random(0), CostModel()
    for _ in range(200):
        shape = random_shape(rng)
        model.observe(shape, truth(shape))
    decode, mixed = StepShape(8, 0, 800), StepShape(8, 256, 800)
    for _ in range(20_000):
        model.observe(decode, truth(decode) * (1 + 0.05 * rng.uniform(-1, 1)))
    assert model.predict(decode) == pytest.approx(truth(decode), rel=0.05)
    assert model.predict(mixed) == pytest.approx(truth(mixed), rel=0.1), "the price of prefill is not forgotten"


def test_it_follows_a_machine_that_becomes_slower() -> None:
    rng, model = random.Random(0), CostModel()
    for factor in (1.0, 3.0):
        for _ in range(300):
            shape = random_shape(rng)
            model.observe(shape, factor * truth(shape))
        shape = StepShape(4, 100, 1000)
        assert model.predict(shape) == pytest.approx(factor * truth(shape), rel=0.03)


def test_it_is_not_trusted_before_it_has_seen_prefill() -> None:
    model = CostModel()
    for _ in range(100):
        model.observe(StepShape(8, 0, 100), 0.01)
    assert not model.is_fitted
    model.observe(StepShape(8, 64, 100), 0.02)
    assert model.is_fitted


def test_tokens_within_a_time() -> None:
    rng, model = random.Random(0), CostModel()
    for _ in range(300):
        shape = random_shape(rng)
        model.observe(shape, truth(shape))
    spare = 0.02 - truth(StepShape(8, 0, 800))
    assert model.prefill_tokens_within(0.02, 8, 800, 4096) == pytest.approx(spare / 0.0001, abs=2)
    assert model.prefill_tokens_within(0.02, 8, 800, 50) == 50
    assert model.prefill_tokens_within(0.005, 8, 800, 4096) == 0
    assert model.prefill_tokens_within(60.0, 8, 800, 1 << 20) == 2 * 512, "not far beyond what was measured"


def test_a_token_far_into_a_prompt_costs_more() -> None:
    model = CostModel()
    for index in range(60):
        shape = StepShape(index % 5, 64 * (index % 3), 5000 * (index % 7))
        model.observe(shape, truth(shape))
    near, far = (model.prefill_tokens_within(0.05, 4, 0, 128, prefill_start=start) for start in (0, 8192))
    assert near == 128
    assert far < 10


def test_a_disturbed_step_does_not_end_drafts() -> None:
    """The only step with a draft took a thousand times as long; after some thousand others it is tried again."""
    model = CostModel()
    decode, drafted = StepShape(1, 0, 100), StepShape(1, 0, 100, 4)
    for _ in range(50):
        model.observe(decode, 0.001)
    model.observe(drafted, 1.0)
    assert next(islice(model.draft_seconds(decode), 4, None)) > 0.1
    for _ in range(4000):
        model.observe(decode, 0.001)
    assert next(islice(model.draft_seconds(decode), 4, None)) < 0.003
    assert model.predict(decode) == pytest.approx(0.001, rel=0.05)
    model.observe(drafted, 0.002)
    assert next(islice(model.draft_seconds(decode), 4, None)) == pytest.approx(0.002, rel=0.3)


def test_what_drafts_cost_is_no_line_through_plain_steps() -> None:
    """On a GPU a step with drafts takes another way: many times as long, however many tokens it has."""
    rng, model = random.Random(1), CostModel()
    for _ in range(400):
        tokens = rng.choice([0, 0, 1, 3, 9, 16])
        is_late = tokens > 0 or rng.random() < 0.1
        seconds = 0.0005 + 0.0002 * is_late + (0.0020 + 0.00001 * tokens if tokens else 0.0)
        model.observe(StepShape(1, 0, 300, tokens, is_late), seconds * (1 + 0.02 * rng.uniform(-1, 1)))
    early, late = (model.draft_seconds(StepShape(1, 0, 300, is_late=is_late)) for is_late in (False, True))
    assert next(early) == pytest.approx(0.0005, rel=0.05)
    found = list(islice(late, 17))
    for tokens in (0, 1, 3, 6, 9, 16):
        expected = 0.0007 + (0.0020 + 0.00001 * tokens if tokens else 0.0)
        assert found[tokens] == pytest.approx(expected, rel=0.1), tokens
