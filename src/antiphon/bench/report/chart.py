"""What the script of a report draws: the axes, series and marks of one plot. Every text in them is data, not markup."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

#: Values that span more than this are drawn on a logarithmic axis, where the axis may be one.
LOG_SPAN = 25.0
#: The same for loads and batch sizes.
LOAD_SPAN = 10.0


class Axis(msgspec.Struct, frozen=True, omit_defaults=True):
    """From `low` to `high`; a logarithmic axis begins above 0. `reading` has {} for a value that is pointed at."""

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
        """An axis for the finite ones of these values.

        It is logarithmic if the values are above 0 and span more than `log_span`. Otherwise it begins at 0, unless
        `from_zero` is false and the values are close together.
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
    """Values in one colour, which `index` chooses, with the words of its entry in the legend.

    Steps and bars have one `x` more than `y`: the edges of their intervals. A band reaches from `low` to `high`. A
    guide has neither words nor readings.
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
    """A dot in the colour of a series; with a label, also a line down to the axis."""

    x: float
    y: float
    index: int
    label: str = ""


class Limit(msgspec.Struct, frozen=True):
    """A vertical line with a label."""

    x: float
    label: str


class Chart(msgspec.Struct, frozen=True, omit_defaults=True):
    """`failures` are the times at which requests failed."""

    x: Axis
    y: Axis
    series: Sequence[PlotSeries]
    marks: Sequence[Mark] = ()
    limits: Sequence[Limit] = ()
    failures: Sequence[float] = ()


def short(value: float) -> str:
    """Three significant digits or more, whole numbers without a point: 0.0123, 1.23, 12.3, 123, 12,345."""
    if not math.isfinite(value):
        return "–"
    if abs(value) < 99.95:
        value = float(f"{value:.3g}")
    if value == round(value) or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{min(6, 2 - math.floor(math.log10(abs(value)) + 1e-9))}f}"


def rounded(values: Iterable[float]) -> list[float]:
    """Six significant digits, more than a screen has pixels."""
    return [float(f"{value:.6g}") for value in values]
