"""Percentiles of measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Those that every distribution of a result has.
PERCENTILES = (50, 90, 95, 99)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Of values in ascending order, at least one; between two of them it is interpolated."""
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
