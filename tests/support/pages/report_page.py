"""An HTML report read back: its tags are balanced, it refers to nothing outside, and its plots are well-formed XML."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}
REFERRING = {"src", "href", "xlink:href", "srcset", "action", "formaction", "data", "poster", "style"}


class ReportPage(HTMLParser):
    """Raises AssertionError for whatever a report must not have."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named: list[str] = []
        self.texts: list[str] = []
        self.tags: dict[str, int] = {}
        self.policy = ""
        self.feed(html)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.named) <= set(self.ids)
        assert "url(" not in html and "@import" not in html
        (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert self.policy.split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("script", "iframe", "img", "link", "base", "object", "form"), tag
        assert not set(given) & REFERRING and not any(name.startswith("on") for name in given), given
        assert all(re.fullmatch(r"[a-z][a-zA-Z-]*", name) for name in given), given
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if given.get("id"):
            self.ids.append(given["id"] or "")
        for name in ("aria-labelledby", "aria-describedby"):
            self.named += (given.get(name) or "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    def plot(self, name: str) -> PlotRead:
        return PlotRead(self.html, name)

    @property
    def plots(self) -> list[str]:
        """The names of all plots; each has a heading, words and a table."""
        names = re.findall(r'<svg class="plot"[^>]* aria-labelledby="([\w-]+)-title"', self.html)
        for name in names:
            figure = self.html.partition(f'<h3 id="{name}-title">')[2].partition("</figure>")[0]
            words = figure.partition(f'id="{name}-text">')[2].partition("</div>")[0]
            assert re.sub(r"<[^>]*>", "", words).strip()
            assert "<details>" in figure and "<tbody><tr>" in figure
        return names


class PlotRead:
    """One plot; its values are read from positions and the ticks of its axes alone."""

    def __init__(self, html: str, name: str) -> None:
        found = re.search(rf'<svg class="plot"[^>]*"{name}-title".*?</svg>', html, re.DOTALL)
        assert found is not None, name
        self.root = ElementTree.fromstring(found[0])
        texts = [text for text in self.root.iter("text") if "tick" in text.get("class", "")]
        self._x = [(float(text.attrib["x"]), _number(text)) for text in texts if "mid" in text.attrib["class"]]
        self._y = [(float(text.attrib["y"]) - 4, _number(text)) for text in texts if "end" in text.attrib["class"]]
        labels = [text.text or "" for text in self.root.iter("text") if "label" in text.get("class", "")]
        self._x_log, self._y_log = "logarithmic" in labels[1], "logarithmic" in labels[0]

    def x(self, position: float) -> float:
        return _value(self._x, position, self._x_log)

    def y(self, position: float) -> float:
        return _value(self._y, position, self._y_log)

    def marks(self) -> dict[int, tuple[float, float]]:
        """Marked percentiles: milliseconds, and the share at which they are drawn."""
        return {
            int(dot.attrib["data-percentile"]): (self.x(float(dot.attrib["cx"])), self.y(float(dot.attrib["cy"])))
            for dot in self.root.iter("circle")
            if "data-percentile" in dot.attrib
        }

    def lines(self) -> list[list[tuple[float, float]]]:
        """The points of each curve."""
        return [self.points(path) for path in self.root.iter("path") if path.get("class", "").startswith("line ")]

    def points(self, path: ElementTree.Element) -> list[tuple[float, float]]:
        pairs = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.attrib["d"])
        return [(self.x(float(x)), self.y(float(y))) for x, y in pairs]

    def dots(self) -> list[tuple[float, float]]:
        dots = self.root.iter("circle")
        return [(self.x(float(dot.attrib["cx"])), self.y(float(dot.attrib["cy"]))) for dot in dots]


def _number(text: ElementTree.Element) -> float:
    written = (text.text or "").replace(",", "")
    return float(written[:-1]) / 100 if written.endswith("%") else float(written)


def _value(ticks: list[tuple[float, float]], position: float, is_log: bool) -> float:
    (first, low), (last, high) = ticks[0], ticks[-1]
    part = (position - first) / (last - first)
    return low * math.exp(math.log(high / low) * part) if is_log else low + (high - low) * part
