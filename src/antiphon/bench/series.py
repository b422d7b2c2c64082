"""Plotted data of reports: distributions as curves, and a run over time, in a bounded number of points."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from antiphon.bench.load.records import MeasuredRequest, latencies

#: Percentiles included in every distribution of a result.
PERCENTILES = (50, 90, 95, 99)
#: Maximum number of values that are all kept.
MAX_EXACT = 400
#: Downsampling of more values: N evenly spaced, plus N per decade of the rest near the largest.
NUM_EVEN, PER_DECADE = 201, 8
MIN_BINS, MAX_BINS, TOKENS_PER_BIN = 12, 120, 16
DIGITS = 4  # digits of milliseconds: a tenth of a microsecond


class Curve(msgspec.Struct, frozen=True):
    """Distribution: `ms[i]` is the value of rank `ranks[i]`, counted from 0, among `count` ascending values.

    The smallest, the largest and the neighbours of `PERCENTILES` are always included, so that interpolation gives exact
    percentiles.
    """

    count: int
    ranks: list[int]
    ms: list[float]

    def __post_init__(self) -> None:
        """Reject invalid curves, since a file may come from any program."""
        if not self.ranks or len(self.ranks) != len(self.ms):
            raise ValueError("a curve needs as many ranks as values")
        if self.ranks[0] != 0 or self.ranks[-1] != self.count - 1 or any(b <= a for a, b in pairwise(self.ranks)):
            raise ValueError("the ranks of a curve ascend from the first to the last")
        if not all(map(math.isfinite, self.ms)) or any(b < a for a, b in pairwise(self.ms)):
            raise ValueError("the values of a curve are finite and ascend")

    @property
    def shares(self) -> list[float]:
        """Share of all values below each value, from 0 to 1."""
        return [rank / max(1, self.count - 1) for rank in self.ranks]

    def at(self, share: float) -> float:
        """Return the value that this share of all values does not exceed."""
        return float(np.interp(share * (self.count - 1), self.ranks, self.ms))


class Timeline(msgspec.Struct, frozen=True):
    """Run in equal intervals: tokens arrived, requests in flight (mean, minimum, maximum), failures."""

    bin_seconds: float
    tokens: list[float]
    in_flight: list[float]
    in_flight_min: list[int]
    in_flight_max: list[int]
    failed: list[int] = []
    prompt_tokens: list[float] = []  # prompt tokens computed; only known for an engine

    def __post_init__(self) -> None:
        lists: list[Sequence[float]] = [self.tokens, self.in_flight, self.in_flight_min, self.in_flight_max]
        lists += [numbers for numbers in (self.failed, self.prompt_tokens) if numbers]
        if not self.tokens or {len(numbers) for numbers in lists} != {len(self.tokens)} or not self.bin_seconds > 0:
            raise ValueError("a timeline has equally many numbers of everything and intervals above 0")


class Series(msgspec.Struct, frozen=True):
    """Plotted data of a run of a server."""

    latency_ms: dict[str, Curve] = {}
    timeline: Timeline | None = None


def curve(milliseconds: Iterable[float]) -> Curve | None:
    """Return the curve of the finite values, or None if no value is finite."""
    ordered = sorted(value for value in milliseconds if math.isfinite(value))
    if not ordered:
        return None
    ranks = kept_ranks(len(ordered))
    return Curve(len(ordered), ranks, [round(ordered[rank], DIGITS) for rank in ranks])


def kept_ranks(count: int) -> list[int]:
    if count <= MAX_EXACT:
        return list(range(count))
    last = count - 1
    kept = {round(number * last / (NUM_EVEN - 1)) for number in range(NUM_EVEN)}
    kept |= {
        last - round(last * 10 ** (-step / PER_DECADE))
        for step in range(PER_DECADE, int(math.log10(last) * PER_DECADE))
    }
    for percent in PERCENTILES:
        position = last * percent / 100
        kept |= {math.floor(position), math.ceil(position)}
    return sorted(kept)


def curves_ms(seconds: Mapping[str, Iterable[float]]) -> dict[str, Curve]:
    """Convert seconds to curves by name; names without values are left out."""
    made = {name: curve(value * 1e3 for value in values) for name, values in seconds.items()}
    return {name: found for name, found in made.items() if found is not None}


def run_series(records: Sequence[MeasuredRequest]) -> Series:
    """Build a run's series: latencies and tokens from whole answers, requests in flight from all requests."""
    whole = [record for record in records if record.error is None]
    return Series(curves_ms(latencies(whole)), request_timeline(records))


def request_timeline(records: Sequence[MeasuredRequest]) -> Timeline | None:
    """Build the timeline from the first request sent to the last one ended; None if its duration is zero."""
    if not records:
        return None
    start, end = min(record.started for record in records), max(record.ended for record in records)
    whole = [record for record in records if record.error is None]
    bins = Bins(start, end, num_bins(sum(record.num_output_tokens for record in whole)))
    if bins.width <= 0:
        return None
    tokens, failed = [0.0] * bins.count, [0] * bins.count
    for record in whole:
        times = record.arrival_times or [record.ended]
        counts = record.tokens_per_arrival() or [record.num_output_tokens]
        for moment, count in zip(times, counts, strict=True):
            tokens[bins.index(moment)] += count
    for record in records:
        if record.error is not None:
            failed[bins.index(record.ended)] += 1
    begins, ends = [(record.started, 1) for record in records], [(record.ended, -1) for record in records]
    mean, least, most = in_flight(bins, begins + ends)
    return Timeline(bins.width, tokens, mean, least, most, failed if any(failed) else [])


class Bins:
    """Equal intervals of time."""

    def __init__(self, start: float, end: float, count: int) -> None:
        self.start = start
        self.count = count
        self.width = (end - start) / count

    def index(self, moment: float) -> int:
        return min(self.count - 1, max(0, int((moment - self.start) / self.width)))

    def spread(self, numbers: list[float], amount: float, begin: float, end: float) -> None:
        """Add an amount that was worked off evenly between two times."""
        first, last = self.index(begin), self.index(end)
        if first == last or end <= begin:
            numbers[last] += amount
            return
        for index in range(first, last + 1):
            low = begin if index == first else self.start + index * self.width
            high = end if index == last else self.start + (index + 1) * self.width
            numbers[index] += amount * (high - low) / (end - begin)


def num_bins(tokens: int) -> int:
    """Return a number of intervals small enough that each contains some tokens."""
    return min(MAX_BINS, max(MIN_BINS, tokens // TOKENS_PER_BIN))


def in_flight(bins: Bins, changes: Iterable[tuple[float, int]]) -> tuple[list[float], list[int], list[int]]:
    """Return the number in flight in each interval: mean over its time, minimum and maximum.

    A change is a time, and the amount by which the number rises or falls then; the number starts and ends at zero.
    """
    by_moment: dict[float, int] = {}
    for moment, change in changes:
        by_moment[moment] = by_moment.get(moment, 0) + change
    mean = [0.0] * bins.count
    least, most = [sys.maxsize] * bins.count, [0] * bins.count
    open_now = 0
    for moment, later in pairwise(sorted(by_moment)):
        open_now += by_moment[moment]
        bins.spread(mean, open_now * (later - moment), moment, later)
        last = bins.index(later)
        if last and later <= bins.start + last * bins.width:
            last -= 1  # ends where the next interval begins
        for index in range(bins.index(moment), last + 1):
            least[index] = min(least[index], open_now)
            most[index] = max(most[index], open_now)
    return [round(value / bins.width, DIGITS) for value in mean], least, most
