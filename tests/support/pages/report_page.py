"""Parsed HTML report: checks for balanced tags and self-contained content, and access to its plots' data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

VOID = {"meta", "br", "hr", "img", "link", "input"}
REFERRING = {"src", "href", "xlink:href", "srcset", "action", "formaction", "data", "poster", "style"}

Point = tuple[float, float]


class ReportPage(HTMLParser):
    """Parser of a report that raises AssertionError for any content that a report must not have."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.open: list[str] = []
        self.ids: list[str] = []
        self.named: list[str] = []
        self.texts: list[str] = []
        self.tags: dict[str, int] = {}
        self.policy = ""
        self.scripts: dict[str, list[str]] = {"module": [], "application/json": []}
        self._script = ""
        self._charts: dict[str, Any] = {}
        self.feed(html)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        assert set(self.named) <= set(self.ids)
        (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
        assert "url(" not in style and "@import" not in style
        (script,) = self.scripts["module"]
        allowed = [f"{kind}-src '{_hash(text)}'" for kind, text in (("style", style), ("script", script))]
        assert self.policy.split("; ")[:3] == ["default-src 'none'", *allowed]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert tag not in ("iframe", "img", "link", "base", "object", "form"), tag
        assert not set(given) & REFERRING and not any(name.startswith("on") for name in given), given
        assert all(re.fullmatch(r"[a-z][a-zA-Z-]*", name) for name in given), given
        self.tags[tag] = self.tags.get(tag, 0) + 1
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""
        if given.get("id"):
            self.ids.append(given["id"] or "")
        for name in ("aria-labelledby", "aria-describedby"):
            self.named += (given.get(name) or "").split()
        if tag == "script":
            self._script = given["type"] or ""
            self.scripts[self._script].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self._script][-1] += data
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.texts)

    @property
    def plots(self) -> list[str]:
        """Names of all plots. Raises unless each plot has a heading, words, data and a table."""
        names = re.findall(r'<div class="plot"[^>]* aria-labelledby="([\w-]+)-title"', self.html)
        assert len(names) == len(self.scripts["application/json"])
        for name in names:
            figure = self.html.partition(f'<h3 id="{name}-title">')[2].partition("</figure>")[0]
            words = figure.partition(f'id="{name}-text">')[2].partition("</div>")[0]
            assert re.sub(r"<[^>]*>", "", words).strip()
            assert "<details>" in figure and "<tbody><tr>" in figure
        return names

    def plot(self, name: str) -> PlotRead:
        return PlotRead(json.loads(self.scripts["application/json"][self.plots.index(name)]))


@dataclass(frozen=True)
class PlotRead:
    """Data of a plot, as the page's script reads it."""

    chart: dict[str, Any]

    def lines(self) -> list[list[Point]]:
        """Return the points of each series except guides; raise if a point is off the axes.

        Series of steps and bars give both ends of each level.
        """
        return [self._points(series) for series in self.chart["series"] if series.get("kind") != "guide"]

    def marks(self) -> list[Point]:
        return [(mark["x"], mark["y"]) for mark in self.chart.get("marks", [])]

    def _points(self, series: dict[str, Any]) -> list[Point]:
        x, y = series["x"], series["y"]
        if series.get("kind") in ("steps", "bars"):
            assert len(x) == len(y) + 1
            x = [edge for pair in pairwise(x) for edge in pair]
            y = [level for level in y for _ in range(2)]
        assert x == sorted(x)
        for axis, values in (("x", x), ("y", y)):
            assert min(values) >= self.chart[axis]["low"] and max(values) <= self.chart[axis]["high"] * (1 + 1e-5)
        return list(zip(x, y, strict=True))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
