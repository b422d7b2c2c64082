"""`RowSteps`: measured times of steps with few rows, which are not linear in the number of rows."""

from __future__ import annotations

#: Maximum number of rows; larger steps are assumed to be linear.
MOST_ROWS = 32
#: Per-step decay of older measurements, so that a row count that was once slow is tried again.
FORGETTING = 0.995
#: Weight of the linear model's prediction, in observations.
PRIOR_WEIGHT = 0.3


class RowSteps:
    """Mean seconds of recent steps for each number of rows.

    Kernels process several rows at a time, so the fifth row may cost more than the third and the fourth together.
    """

    def __init__(self) -> None:
        self._means = [0.0] * (MOST_ROWS + 1)
        self._weights = [0.0] * (MOST_ROWS + 1)  # value at the step in `_seen`; fades since then
        self._seen = [0] * (MOST_ROWS + 1)
        self._num_steps = 0

    def observe(self, rows: int, seconds: float) -> None:
        self._num_steps += 1
        if rows > MOST_ROWS:
            return
        weight = self._weight(rows) + 1.0
        self._means[rows] += (seconds - self._means[rows]) / weight
        self._weights[rows], self._seen[rows] = weight, self._num_steps

    def _weight(self, rows: int) -> float:
        return self._weights[rows] * FORGETTING ** (self._num_steps - self._seen[rows])

    def seconds(self, rows: int, linear: float) -> float:
        """Return the seconds of a step with `rows` rows, weighing the measurements against the prediction `linear`."""
        if rows > MOST_ROWS:
            return linear
        weight = self._weight(rows)
        return (weight * self._means[rows] + PRIOR_WEIGHT * linear) / (weight + PRIOR_WEIGHT)
