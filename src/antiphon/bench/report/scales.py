"""Numbers to positions: linear and logarithmic scales, their ticks, and numbers as short texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: Values that span more than this are drawn on a logarithmic scale, where the axis may have one.
LOG_SPAN = 25.0


@dataclass(frozen=True)
class Scale:
    """From `low`..`high` to the positions `start`..`end`. A logarithmic one has `low` above 0."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        part = self._warped(value) - self._warped(self.low)
        return self.start + (self.end - self.start) * part / (self._warped(self.high) - self._warped(self.low))

    def value(self, position: float) -> float:
        """The value at a position: the inverse."""
        low, high = self._warped(self.low), self._warped(self.high)
        warped = low + (high - low) * (position - self.start) / (self.end - self.start)
        return math.exp(warped) if self.is_log else warped

    def ticks(self, most: int = 6) -> list[float]:
        return log_ticks(self.low, self.high, most) if self.is_log else linear_ticks(self.low, self.high, most)

    def _warped(self, value: float) -> float:
        return math.log(max(value, self.low * 1e-9)) if self.is_log else value


def linear_scale(values: Iterable[float], start: float, end: float) -> Scale:
    """From 0 to a round number at or above the largest value."""
    high = max([value for value in values if math.isfinite(value)], default=0.0)
    step = tick_step(high if high > 0 else 1.0)
    return Scale(0.0, max(1, math.ceil(high / step - 1e-9)) * step, start, end)


def latency_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """For values above 0 that span much, logarithmic from below the smallest; else linear around them."""
    low, high = min(values), max(values)
    if low > 0 and high / low > LOG_SPAN:
        return Scale(low * 0.9, high * 1.1, start, end, is_log=True)
    if low < high / 2 or high <= 0:
        return linear_scale(values, start, end)
    room = (high - low) * 0.08 or high * 0.1
    return Scale(max(0.0, low - room), high + room, start, end)


def tick_step(span: float, most: int = 6) -> float:
    """1, 2 or 5 times a power of ten, so that at most `most` steps cover the span."""
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    step = tick_step(high - low, most)
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 of each power of ten, fewer if these are too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
        if len(ticks) <= most:
            break
    return ticks[:: max(1, math.ceil(len(ticks) / most))]


def short(value: float) -> str:
    """Three significant digits or more, whole numbers without a point: 0.0123, 1.23, 12.3, 123, 12,345."""
    if not math.isfinite(value):
        return "–"
    if abs(value) < 99.95:
        value = float(f"{value:.3g}")
    if value == round(value) or abs(value) >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.{min(6, 2 - math.floor(math.log10(abs(value)) + 1e-9))}f}"


def tick_text(value: float) -> str:
    """Without zeros that say nothing: 0.5, 20, 1,000."""
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return text if text and text != "-0" else "0"
