"""`RowSteps`: what steps of a few rows took, where a line through all of them would not do."""

from __future__ import annotations

#: Steps of more rows are taken to be linear.
MOST_ROWS = 32
#: Older steps fade at this rate, so that what is not observed any more is tried again.
FORGETTING = 0.995
#: How many steps the linear model is worth.
PRIOR_WEIGHT = 0.3


class RowSteps:
    """The mean seconds of recent steps for each number of rows.

    Kernels take several rows at a time, so a fifth row may cost more than the third and the fourth together.
    """

    def __init__(self) -> None:
        self._means = [0.0] * (MOST_ROWS + 1)
        self._weights = [0.0] * (MOST_ROWS + 1)  # as they were at the step of `_seen`
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
        """Of a step with so many rows, of which the linear model says `linear`."""
        if rows > MOST_ROWS:
            return linear
        weight = self._weight(rows)
        return (weight * self._means[rows] + PRIOR_WEIGHT * linear) / (weight + PRIOR_WEIGHT)
