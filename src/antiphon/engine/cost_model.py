"""`CostModel`: step times, predicted by a linear model that is fitted online to measured steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from operator import mul

from antiphon.engine.row_steps import RowSteps

#: Per-step decay of older measurements, so that the fit follows a machine whose speed changes.
FORGETTING = 0.98
#: Minimum numbers of measured steps, and of measured steps with prefill, for a usable fit.
MIN_STEPS = 8
MIN_PREFILL_STEPS = 1
#: Coordinate-descent passes over the weights in a fit.
SWEEPS = 4
#: Assumed cost of a drafted token as a fraction of the step's time, before any drafted token was measured.
FIRST_ROW_SHARE = 0.3
#: Per-step decay of the measured draft cost towards FIRST_ROW_SHARE while no step has drafts. Without the decay, one
#: disturbed step could end drafting for good.
DRAFTS_FORGETTING = 0.997
#: Faded number of steps with drafts below which the weights of drafts are not fitted.
FEWEST_DRAFTED = 0.1
#: Maximum steps between two fits: older ones would have faded too much.
MOST_UNFITTED = 16


@dataclass(frozen=True, slots=True)
class StepShape:
    """Features of a step that determine its time."""

    decodes: int  # requests that compute one token
    prefill_tokens: int  # tokens of requests that are more than one token behind
    attended_tokens: int = 0  # cached tokens that attention reads, summed over the computed tokens
    drafted_tokens: int = 0  # drafted tokens, without the newest token of their requests
    is_late: bool = False  # planned with no step in flight, though the model may have several

    def features(self) -> tuple[float, ...]:
        attended = self.attended_tokens / 1024.0
        numbers = (self.decodes, self.prefill_tokens, attended, self.drafted_tokens, self.drafted_tokens > 0)
        return (1.0, *map(float, numbers), float(self.is_late))


#: Number of features, and the indexes of the features of drafts.
NUM_FEATURES, DRAFT_FEATURES = 7, (4, 5)


class CostModel:
    """Linear model: seconds of a step ≈ w · features with w ≥ 0, fitted to recent steps by least squares.

    Errors are relative to the step's length, so that short steps are predicted as well as long ones. Each fit starts
    from the previous weights, which keeps weights that recent steps do not determine, such as prefill while all
    requests decode. Steps are collected and fitted when a prediction is needed, or every MOST_UNFITTED steps.
    """

    def __init__(self) -> None:
        self._weights = [0.0] * NUM_FEATURES
        self._unfitted: list[tuple[StepShape, float]] = []  # steps since the last fit
        self.num_steps = 0
        self._num_prefill_steps = 0
        self._most_prefill_tokens = 0
        # sums of products of two features over the steps
        self._products = [[0.0] * NUM_FEATURES for _ in range(NUM_FEATURES)]
        self._targets = [0.0] * NUM_FEATURES  # sums of products of a feature and the seconds
        self._num_drafted_steps = 0.0  # fades like the measurements
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
        """Decay the cost of drafts by one step while no step has drafts."""
        weights = self._weights
        if sum(weights[i] for i in DRAFT_FEATURES) > FIRST_ROW_SHARE * (weights[0] + weights[1]):
            for i in DRAFT_FEATURES:
                weights[i] *= DRAFTS_FORGETTING

    @property
    def weights(self) -> list[float]:
        """Weight of each feature, fitted to all steps so far."""
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
        """Predict the seconds of a step, and of one more drafted token in it, from the last fit; 0.0 if not measured.

        The planner calls this in every step, so it does not fit.
        """
        weights = self._weights
        return sum(map(mul, weights, shape.features())), weights[4]

    @property
    def has_drafted(self) -> bool:
        """Whether a step with drafts was measured."""
        return self._weights[4] + self._weights[5] > 0.0

    def draft_seconds(self, shape: StepShape) -> Iterator[float]:
        """Yield the seconds of the step with 0, 1, 2, … drafted tokens.

        Measured steps with the same number of rows are weighed against the last fit.
        """
        step, row = self.draft_costs(shape)
        attended = self._weights[3] * shape.attended_tokens / 1024.0
        late = self._weights[6] * shape.is_late
        for drafted in count():
            # a drafted token attends to the same context as its request's newest
            share = 1.0 + drafted / max(1, shape.decodes)
            linear = step - attended - late + drafted * row + (self._weights[5] if drafted else 0.0)
            yield late + attended * share + self._row_steps.seconds(shape.decodes + drafted, linear)

    @property
    def late_cost(self) -> float:
        """Extra seconds of a step that is planned with no step in flight, by the last fit."""
        return self._weights[6]

    @property
    def prefill_cost(self) -> float:
        """Seconds per prefill token by the last fit; 0.0 if not measured."""
        return self._weights[2]

    def prefill_tokens_within(
        self, seconds: float, decodes: int, attended_tokens: int, cap: int, prefill_start: int = 0
    ) -> int:
        """Return the number of prefill tokens with which a step of these decodes takes at most `seconds`.

        It is at most `cap` and at most twice the most that was ever measured. Tokens at a later position cost more,
        since each attends to all tokens before it.
        """
        cap = min(cap, 2 * self._most_prefill_tokens)
        spare = seconds - self.predict(StepShape(decodes, 0, attended_tokens))
        per_token = self.weights[2] + self.weights[3] * prefill_start / 1024.0
        if per_token <= 0.0:
            return cap if spare > 0.0 else 0
        return max(0, min(cap, int(spare / per_token)))
