"""Confidence intervals for a ratio of two latencies, given each run's number of requests."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from antiphon.bench.series import Curve

NUM_DRAWS = 2000
#: Latencies that are independent enough between requests; the gaps between an answer's tokens are not.
INDEPENDENT = ("ttft", "tpot", "e2e")
MIN_COUNT = 10


def ratio_interval(before: Curve, after: Curve, part: str) -> tuple[float, float] | None:
    """Return the 95 % interval of the ratio of `part` (mean, p50, p90, …) under resampling of both runs' requests.

    A percentile of `n` samples is the value at a beta-distributed share around it, and a mean is normally distributed.
    Return None for fewer than `MIN_COUNT` requests, or fewer than one beyond the percentile. Differences between two
    runs of the same server are not included.
    """
    count, share = min(before.count, after.count), _share(part)
    if count < MIN_COUNT or (1 - share) * (count + 1) < 1:
        return None
    source = np.random.default_rng([before.count, after.count, round(1000 * share)])
    one, two = _draws(before, part, source), _draws(after, part, source)
    ratios = two[one > 0] / one[one > 0]
    if not len(ratios):
        return None
    low, high = np.percentile(ratios, (2.5, 97.5))
    return float(low), float(high)


def _draws(values: Curve, part: str, source: np.random.Generator) -> NDArray[np.float64]:
    if part == "mean":
        mean, deviation = _moments(values)
        return source.normal(mean, deviation / math.sqrt(values.count), NUM_DRAWS)
    share = _share(part)
    shares = source.beta(share * (values.count + 1), (1 - share) * (values.count + 1), NUM_DRAWS)
    return np.interp(shares * (values.count - 1), values.ranks, values.ms)


def _share(part: str) -> float:
    return 0.5 if part == "mean" else int(part.removeprefix("p")) / 100


def _moments(values: Curve) -> tuple[float, float]:
    """Return mean and standard deviation; each value that was not kept counts as the middle of its neighbours."""
    if len(values.ranks) == values.count:
        return statistics.fmean(values.ms), statistics.stdev(values.ms)
    weights = [later - earlier for earlier, later in pairwise(values.ranks)]
    middles = [(low + high) / 2 for low, high in pairwise(values.ms)]
    mean = statistics.fmean(middles, weights)
    return mean, math.sqrt(statistics.fmean([(middle - mean) ** 2 for middle in middles], weights))
