"""How long a step will take: a linear model fitted online to the steps that were measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from operator import mul

from antiphon.engine.row_steps import RowSteps

#: Older steps fade at this rate, so that the model follows a machine whose speed changes.
FORGETTING = 0.98
#: Trusted from this many steps on, with this many that have prefill.
MIN_STEPS = 8
MIN_PREFILL_STEPS = 1
#: Passes over the weights in a fit.
SWEEPS = 4
#: The time of a drafted token as a part of a step's, before one has been measured.
FIRST_ROW_SHARE = 0.3
#: What drafts cost falls back to that at this rate while there are none: a step that was disturbed does not end them.
DRAFTS_FORGETTING = 0.997
#: Fewer recent steps than this with drafts determine nothing.
FEWEST_DRAFTED = 0.1
#: Steps after which the weights are fitted even without a query, before older steps have faded too far.
MOST_UNFITTED = 16


@dataclass(frozen=True, slots=True)
class StepShape:
    """What a step's time depends on."""

    decodes: int  # requests that compute one token
    prefill_tokens: int  # tokens of requests farther behind
    attended_tokens: int = 0  # tokens that attention reads, summed over the tokens that are computed
    drafted_tokens: int = 0  # tokens of drafts, beside the one token of their request
    is_late: bool = False  # it was planned when the step before it was committed, though it could have been before

    def features(self) -> tuple[float, ...]:
        attended = self.attended_tokens / 1024.0
        numbers = (self.decodes, self.prefill_tokens, attended, self.drafted_tokens, self.drafted_tokens > 0)
        return (1.0, *map(float, numbers), float(self.is_late))


#: How many features there are, and which are those of drafts.
NUM_FEATURES, DRAFT_FEATURES = 7, (4, 5)


class CostModel:
    """Seconds of a step ≈ w · features with w ≥ 0: least squares over recent steps, by coordinate descent.

    Errors count in proportion to the step's length, so that short steps are predicted as well as long ones. The
    weights start from the last ones, so those that recent steps do not determine (prefill, while all decode) stay. The
    fit is made when it is queried, or else every few steps: most steps are only added up.
    """

    def __init__(self) -> None:
        self._weights = [0.0] * NUM_FEATURES
        self._unfitted: list[tuple[StepShape, float]] = []  # steps since the last fit
        self.num_steps = 0
        self._num_prefill_steps = 0
        self._most_prefill_tokens = 0
        self._products = [[0.0] * NUM_FEATURES for _ in range(NUM_FEATURES)]  # of pairs of features, over the steps
        self._targets = [0.0] * NUM_FEATURES  # of features with seconds
        self._num_drafted_steps = 0.0  # older ones fade
        self._row_steps = RowSteps()

    @property
    def is_fitted(self) -> bool:
        return self.num_steps >= MIN_STEPS and self._num_prefill_steps >= MIN_PREFILL_STEPS

    def observe(self, shape: StepShape, seconds: float) -> None:
        self.num_steps += 1
        self._num_prefill_steps += shape.prefill_tokens > 0
        self._most_prefill_tokens = max(self._most_prefill_tokens, shape.prefill_tokens)
        if not shape.prefill_tokens:
            attended = self._weights[3] * shape.attended_tokens / 1024.0
            late = self._weights[6] * shape.is_late
            self._row_steps.observe(shape.decodes + shape.drafted_tokens, seconds - attended - late)
        self._unfitted.append((shape, seconds))
        is_news = shape.drafted_tokens > 0 and self._num_drafted_steps < FEWEST_DRAFTED
        if is_news or len(self._unfitted) == MOST_UNFITTED:
            self._fit()

    def _count(self, shape: StepShape, seconds: float) -> None:
        products, targets = self._products, self._targets
        self._num_drafted_steps = FORGETTING * self._num_drafted_steps + (shape.drafted_tokens > 0)
        if self._num_drafted_steps < FEWEST_DRAFTED:
            self._forget_drafts()
        scale = 1.0 / max(seconds, 1e-6)
        x = [scale * value for value in shape.features()]
        for i, row in enumerate(products):
            targets[i] = FORGETTING * targets[i] + x[i]  # times scale * seconds, which is 1
            for j in range(NUM_FEATURES):
                row[j] = FORGETTING * row[j] + x[i] * x[j]

    def _forget_drafts(self) -> None:
        """A step without drafts when there have been none for long."""
        weights = self._weights
        if sum(weights[i] for i in DRAFT_FEATURES) > FIRST_ROW_SHARE * (weights[0] + weights[1]):
            for i in DRAFT_FEATURES:
                weights[i] *= DRAFTS_FORGETTING

    @property
    def weights(self) -> list[float]:
        """Of the features, fitted to the steps so far."""
        if self._unfitted:
            self._fit()
        return self._weights

    def _fit(self) -> None:
        for shape, seconds in self._unfitted:
            self._count(shape, seconds)
        self._unfitted.clear()
        targets, weights = self._targets, self._weights
        skipped = DRAFT_FEATURES if self._num_drafted_steps < FEWEST_DRAFTED else ()
        for _ in range(SWEEPS):
            for i, row in enumerate(self._products):
                if row[i] > 1e-6 and i not in skipped:
                    error = targets[i] - sum(map(mul, row, weights))
                    weights[i] = max(0.0, weights[i] + error / row[i])

    def predict(self, shape: StepShape) -> float:
        return sum(w * value for w, value in zip(self.weights, shape.features(), strict=True))

    def draft_costs(self, shape: StepShape) -> tuple[float, float]:
        """Seconds of a step, and of one more drafted token in it, by the last fit; 0.0 before one has been measured.

        This is asked for in every step, so it makes no fit of its own.
        """
        weights = self._weights
        return sum(map(mul, weights, shape.features())), weights[4]

    @property
    def has_drafted(self) -> bool:
        """Whether a step with drafts was measured."""
        return self._weights[4] + self._weights[5] > 0.0

    def draft_seconds(self, shape: StepShape) -> Iterator[float]:
        """Seconds of such a step with 0, 1, 2, … drafted tokens: by steps of as many rows, else by the last fit."""
        step, row = self.draft_costs(shape)
        attended = self._weights[3] * shape.attended_tokens / 1024.0
        late = self._weights[6] * shape.is_late
        for drafted in count():
            share = 1.0 + drafted / max(1, shape.decodes)  # a drafted token attends to as much as its request's newest
            linear = step - attended - late + drafted * row + (self._weights[5] if drafted else 0.0)
            yield late + attended * share + self._row_steps.seconds(shape.decodes + drafted, linear)

    @property
    def late_cost(self) -> float:
        """Seconds that a step takes more if none was in flight when it was planned, by the last fit."""
        return self._weights[6]

    @property
    def prefill_cost(self) -> float:
        """Seconds of a token of a prompt, by the last fit; 0.0 before one has been measured."""
        return self._weights[2]

    def prefill_tokens_within(
        self, seconds: float, decodes: int, attended_tokens: int, cap: int, prefill_start: int = 0
    ) -> int:
        """How many prefill tokens fit a step of this length beside the decodes; at most twice the most measured.

        A token of a prompt attends to all before it, so later tokens cost more.
        """
        cap = min(cap, 2 * self._most_prefill_tokens)
        spare = seconds - self.predict(StepShape(decodes, 0, attended_tokens))
        per_token = self.weights[2] + self.weights[3] * prefill_start / 1024.0
        if per_token <= 0.0:
            return cap if spare > 0.0 else 0
        return max(0, min(cap, int(spare / per_token)))
