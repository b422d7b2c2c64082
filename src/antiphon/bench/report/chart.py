"""Data that a report's script draws: axes, series and marks of a plot. All texts in it are data, not markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

#: Minimum ratio of maximum to minimum for a logarithmic axis of latencies.
LOG_SPAN = 25.0
#: Minimum ratio of maximum to minimum for a logarithmic axis of loads and batch sizes.
LOAD_SPAN = 10.0


class Axis(msgspec.Struct, frozen=True, omit_defaults=True):
    """Axis from `low` to `high`; a logarithmic axis begins above 0.

    `reading` has {} for the value under the pointer.
    """

    label: str
    low: float
    high: float
    reading: str = "{}"
    is_log: bool = False
    is_share: bool = False

    @staticmethod
    def fit(
        label: str, values: Iterable[float], reading: str = "{}", log_span: float = math.inf, from_zero: bool = True
    ) -> Axis:
        """Return an axis for the finite values among these.

        The axis is logarithmic if the values are above 0 and span more than `log_span`. Otherwise it begins at 0,
        unless `from_zero` is False and the values are close together.
        """
        finite = [value for value in values if math.isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if low > 0 and high / low > log_span:
            return Axis(label, low * 0.9, high * 1.1, reading, is_log=True)
        if from_zero or low < high / 2 or high <= 0:
            return Axis(label, min(0.0, low), max(0.0, high) * 1.05 or float(low == 0), reading)
        room = (high - low) * 0.08 or high * 0.1
        return Axis(label, max(0.0, low - room), high + room, reading)


class PlotSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """Series of values in the colour `index`, with its text in the legend.

    Steps and bars have one `x` more than `y`: the edges of their intervals. A band reaches from `low` to `high`. A
    guide has neither text nor readings.
    """

    label: str
    index: int
    x: Sequence[float]
    y: Sequence[float]
    kind: Literal["line", "dots", "dotted", "steps", "bars", "guide"] = "line"
    text: str = ""
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    is_filled: bool = False


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """Dot in the colour of a series; with a label, also a line down to the axis."""

    x: float
    y: float
    index: int
    label: str = ""


class Limit(msgspec.Struct, frozen=True):
    """Vertical line with a label."""

    x: float
    label: str


class Chart(msgspec.Struct, frozen=True, omit_defaults=True):
    """Content of a plot. `failures` are the times at which requests failed."""

    x: Axis
    y: Axis
    series: Sequence[PlotSeries]
    marks: Sequence[Mark] = ()
    limits: Sequence[Limit] = ()
    failures: Sequence[float] = ()


def short(value: float) -> str:
    """Format at least three significant digits, whole numbers without a point: 0.0123, 1.23, 12.3, 123, 12,345."""
    if not math.isfinite(value):
        return "–"
    if abs(value) < 99.95:
        value = float(f"{value:.3g}")
    if value == round(value) or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{min(6, 2 - math.floor(math.log10(abs(value)) + 1e-9))}f}"


def rounded(values: Iterable[float]) -> list[float]:
    """Round to six significant digits, more than a screen can show."""
    return [float(f"{value:.6g}") for value in values]
