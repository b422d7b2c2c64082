"""One plot as SVG: axes, curves, bands, bars, marks, and the figures shown under the pointer.

Colours and sizes are classes of the page's style sheet; there is no script. Every text is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from antiphon.bench.report.scales import Scale, tick_text

WIDTH, HEIGHT = 480, 288
LEFT, RIGHT, TOP, BOTTOM = 54, 466, 38, 244
#: Colours of the style sheet. Beyond them they are used again with another dash.
NUM_COLOURS, NUM_DASHES = 8, 3
LINE = 15  # from one line of text to the next
CHARACTER = 6.3  # the width of a character, for the box around texts

Point = tuple[float, float]


@dataclass(frozen=True)
class Reading:
    """What the pointer shows at a place: a heading and one line for each curve."""

    x: float
    heading: str
    lines: Sequence[str]


def text_of(value: object) -> str:
    """Any text of a run, safe inside HTML and SVG; characters that neither may have become a sign."""
    return escape("".join(sign if _is_allowed(sign) else "\ufffd" for sign in str(value)))


def _is_allowed(sign: str) -> bool:
    """Neither a control character nor half of a pair nor what Unicode will never assign."""
    code = ord(sign)
    if code in (9, 10, 13):
        return True
    is_control, is_half = code < 0x20 or 0x7F <= code < 0xA0, 0xD800 <= code < 0xE000
    return not (is_control or is_half or code & 0xFFFE == 0xFFFE)


def series_class(index: int) -> str:
    return f"c{index % NUM_COLOURS} d{index // NUM_COLOURS % NUM_DASHES}"


def swatch(index: int) -> str:
    """A short piece of a curve, for legends."""
    return (
        f'<svg class="swatch" viewBox="0 0 24 8" aria-hidden="true"><path class="line {series_class(index)}" '
        f'd="M1 4H23"/></svg>'
    )


class Chart:
    """Positions are those of the two scales."""

    def __init__(self, x: Scale, y: Scale, x_label: str, y_label: str, y_text: Callable[[float], str] = tick_text):
        self.x, self.y = x, y
        self._parts: list[str] = []
        self._over: list[str] = []
        self._axes(x_label, y_label, y_text)

    def _axes(self, x_label: str, y_label: str, y_text: Callable[[float], str]) -> None:
        for value in self.y.ticks(5):
            place = self.y(value)
            self._parts.append(f'<path class="grid" d="M{LEFT} {place:.1f}H{RIGHT}"/>')
            self._parts.append(f'<text class="tick end" x="{LEFT - 7}" y="{place + 4:.1f}">{y_text(value)}</text>')
        for value in self.x.ticks(6):
            place = self.x(value)
            self._parts.append(f'<path class="axis" d="M{place:.1f} {BOTTOM}v5"/>')
            self._parts.append(f'<text class="tick mid" x="{place:.1f}" y="{BOTTOM + 20}">{tick_text(value)}</text>')
        self._parts.append(f'<path class="axis" d="M{LEFT} {BOTTOM}H{RIGHT}"/>')
        self._parts.append(f'<text class="label" x="2" y="14">{text_of(y_label)}</text>')
        note = ", logarithmic" if self.x.is_log else ""
        self._parts.append(f'<text class="label end" x="{RIGHT}" y="{HEIGHT - 6}">{text_of(x_label)}{note}</text>')

    def line(self, points: Iterable[Point], index: int) -> None:
        path = self._path(points)
        if path:
            self._parts.append(f'<path class="line {series_class(index)}" d="{path}"/>')

    def dots(self, points: Iterable[Point], index: int) -> None:
        for x, y in points:
            self._parts.append(
                f'<circle class="dot {series_class(index)}" cx="{self.x(x):.2f}" cy="{self.y(y):.2f}" r="3.5"/>'
            )

    def area(self, points: Sequence[Point], index: int) -> None:
        """Between the curve and the axis."""
        if points:
            path = self._path(points)
            first, last = self.x(points[0][0]), self.x(points[-1][0])
            self._parts.append(
                f'<path class="area {series_class(index)}" d="{path}L{last:.2f} {BOTTOM}H{first:.2f}Z"/>'
            )

    def band(self, lower: Sequence[Point], upper: Sequence[Point], index: int) -> None:
        if lower:
            path = self._path(lower) + self._path(list(reversed(upper))).replace("M", "L", 1) + "Z"
            self._parts.append(f'<path class="area {series_class(index)}" d="{path}"/>')

    def bars(self, edges: Sequence[float], heights: Sequence[float], index: int) -> None:
        """One between each two edges."""
        for low, high, height in zip(edges, edges[1:], heights, strict=False):
            left, top = self.x(low), self.y(height)
            self._parts.append(
                f'<rect class="bar {series_class(index)}" x="{left + 0.5:.2f}" y="{top:.2f}" '
                f'width="{max(0.5, self.x(high) - left - 1):.2f}" height="{BOTTOM - top:.2f}"/>'
            )

    def diagonal(self) -> None:
        """Where both scales have the same value."""
        end = min(self.x.high, self.y.high)
        begin = max(self.x.low, self.y.low)
        if begin < end:
            points = [(begin + (end - begin) * part / 40, begin + (end - begin) * part / 40) for part in range(41)]
            self._parts.append(f'<path class="guide" d="{self._path(points)}"/>')

    def limit(self, x: float, label: str, is_left: bool | None = None) -> None:
        """A vertical line with a label above it on one side, if it lies inside; an empty label is left out."""
        if not self.x.low < x < self.x.high:
            return
        place = self.x(x)
        goes_left = place > (LEFT + RIGHT) / 2 if is_left is None else is_left
        self._parts.append(f'<path class="guide" d="M{place:.1f} {TOP - 10}V{BOTTOM}"/>')
        if label:
            anchor, shift = ("note end", -5) if goes_left else ("note", 5)
            self._over.append(f'<text class="{anchor}" x="{place + shift:.1f}" y="{TOP - 6}">{text_of(label)}</text>')

    def percentile_mark(self, percent: int, ms: float, text: str, level: float, index: int) -> None:
        """A dot on the curve of a distribution, a line down to the axis and a label at `level` (0 to 1) beside it."""
        x, y = self.x(ms), self.y(percent / 100)
        self._parts.append(f'<path class="drop" d="M{x:.2f} {y:.2f}V{BOTTOM}"/>')
        self._over.append(
            f'<circle class="dot {series_class(index)}" data-percentile="{percent}" cx="{x:.2f}" cy="{y:.2f}" r="3.5"/>'
        )
        side = "end" if x > LEFT + (RIGHT - LEFT) * 0.66 else ""
        height = BOTTOM - (BOTTOM - TOP) * level
        self._over.append(
            f'<text class="mark {side}" x="{x + (-6 if side else 6):.1f}" y="{height:.1f}">{text_of(text)}</text>'
        )

    def failures(self, places: Iterable[float]) -> None:
        """Small crosses at the top for the times at which requests failed."""
        for x in places:
            self._over.append(f'<path class="cross" d="M{self.x(x) - 4:.1f} {TOP + 2}l8 8m0-8l-8 8"/>')

    def readings(self, readings: Sequence[Reading]) -> None:
        """An invisible strip for each, side by side; the pointer over it shows its line and texts."""
        places = [self.x(reading.x) for reading in readings]
        for number, (reading, place) in enumerate(zip(readings, places, strict=True)):
            left = LEFT if number == 0 else (places[number - 1] + place) / 2
            right = RIGHT if number == len(readings) - 1 else (place + places[number + 1]) / 2
            texts = [reading.heading, *reading.lines]
            width = max(map(len, texts)) * CHARACTER + 14
            box = min(place + 8, RIGHT - width) if place < (LEFT + RIGHT) / 2 else max(LEFT, place - 8 - width)
            lines = "".join(f'<tspan x="{box + 7:.0f}" dy="{LINE}">{text_of(text)}</tspan>' for text in texts)
            self._over.append(
                f'<g class="hit"><rect x="{left:.1f}" y="{TOP}" width="{max(0.1, right - left):.1f}" '
                f'height="{BOTTOM - TOP}"/><g class="tip"><path d="M{place:.1f} {TOP}V{BOTTOM}"/><rect x="{box:.0f}" '
                f'y="{TOP + 4}" width="{width:.0f}" height="{LINE * len(texts) + 9}" rx="4"/>'
                f'<text y="{TOP + 4}">{lines}</text></g></g>'
            )

    def svg(self, name: str) -> str:
        """`name` is the id of the plot: its heading and its text have ids made of it."""
        return (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-title" '
            f'aria-describedby="{name}-text">{"".join(self._parts)}{"".join(self._over)}</svg>'
        )

    def _path(self, points: Iterable[Point]) -> str:
        """Points that are drawn in the same place are drawn once."""
        placed: list[str] = []
        for x, y in points:
            place = f"{self.x(x):.2f} {self.y(y):.2f}"
            if not placed or placed[-1] != place:
                placed.append(place)
        return "M" + "L".join(placed) if placed else ""
