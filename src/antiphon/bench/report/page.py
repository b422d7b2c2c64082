"""HTML page of a report, with the script that draws its plots. Its policy allows no other script and no request."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from html import escape
from importlib import resources
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.bench.report.plots import Plot

#: Path of the plotting library without suffix: the server's page uses it too.
UPLOT = "server/page/static/vendor/uplot"
#: Path of the library's licence, which every copy must include.
UPLOT_LICENCE = "server/page/static/vendor/licences/uplot.txt"
#: Numbers of colours and dash patterns of series, as in the style sheet and the script.
NUM_COLOURS, NUM_DASHES = 8, 3


@dataclass(frozen=True)
class FigureCard:
    """Card that shows a figure in large type."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """Table cell with a mark: `bad`, `better` or none."""

    text: str
    mark: str = ""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """Render the whole file. `parts` are HTML; title and subtitle are plain text."""
    style, script = _style(), _script()
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text_of(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{text_of(title)}</h1><p>{text_of(subtitle)}</p></header>\n"
        "<noscript><p>Plots need JavaScript. Their numbers are in the tables below them.</p></noscript>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer>Written by antiphon {text_of(__version__)}.</footer>\n</main>\n"
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


@cache
def _style() -> str:
    return _file(f"{UPLOT}.css") + "\n" + _file("bench/report/report.css")


@cache
def _script() -> str:
    """Return the library with its licence, then the reports' script, which uses the library as a global."""
    return "\n".join([f"/*\n{_file(UPLOT_LICENCE)}*/", _file(f"{UPLOT}.js"), _file("bench/report/report.js")])


def _file(path: str) -> str:
    return (resources.files("antiphon") / path).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return a style sheet's or script's hash as written in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def text_of(value: object) -> str:
    """Escape any text for HTML; characters that HTML forbids are replaced."""
    return escape("".join(sign if _is_allowed(sign) else "\ufffd" for sign in str(value)))


def _is_allowed(sign: str) -> bool:
    """Return whether HTML allows a character: no control character, surrogate or noncharacter."""
    code = ord(sign)
    if code in (9, 10, 13):
        return True
    is_control, is_half = code < 0x20 or 0x7F <= code < 0xA0, 0xD800 <= code < 0xE000
    return not (is_control or is_half or code & 0xFFFE == 0xFFFE)


def section(title: str, *parts: str) -> str:
    """Render a section; empty without parts."""
    body = "\n".join(part for part in parts if part)
    return f"<section>\n<h2>{text_of(title)}</h2>\n{body}\n</section>" if body else ""


def cards(shown: Sequence[FigureCard]) -> str:
    items = "".join(
        f"<li><span>{text_of(card.label)}</span><b>{text_of(card.value)}</b><span>{text_of(card.note)}</span></li>"
        for card in shown
    )
    return f'<ul class="cards">{items}</ul>'


def plots(shown: Sequence[Plot]) -> str:
    return f'<div class="plots">\n{"".join(map(_figure, shown))}</div>' if shown else ""


def _figure(plot: Plot) -> str:
    """Render a plot with its heading, text or legend, data, and table of numbers."""
    entries = "".join(
        f"<li>{_swatch(series.index)}<b>{text_of(series.label)}</b>: {text_of(series.text)}</li>"
        for series in plot.chart.series
        if series.text
    )
    text = (f"<p>{text_of(plot.text)}</p>" if plot.text else "") + (f"<ul>{entries}</ul>" if entries else "")
    return (
        f'<figure>\n<h3 id="{plot.name}-title">{text_of(plot.title)}</h3>\n'
        f'<div class="words" id="{plot.name}-text">{text}</div>\n'
        f'<div class="plot" role="img" aria-labelledby="{plot.name}-title" aria-describedby="{plot.name}-text">'
        f'<script type="application/json">{_json(plot.chart)}</script></div>\n<details><summary>Numbers</summary>'
        f'<div tabindex="0" role="region" aria-labelledby="{plot.name}-title">{table(plot.headers, plot.rows)}</div>'
        "</details>\n</figure>\n"
    )


def _swatch(index: int) -> str:
    """Render a short piece of a curve for the legend."""
    colour, dash = index % NUM_COLOURS, index // NUM_COLOURS % NUM_DASHES
    return f'<i class="swatch c{colour} d{dash}" aria-hidden="true"></i>'


def _json(data: object) -> str:
    """Encode as ASCII JSON that cannot end its script element."""
    text = json.dumps(msgspec.to_builtins(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def table(headers: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str = "", kind: str = "") -> str:
    """Render a table; the first cell of each row is its heading."""
    head = "".join(f'<th scope="col">{text_of(header)}</th>' if header else "<td></td>" for header in headers)
    body = "".join(f"<tr>{''.join(_cell(cell, index) for index, cell in enumerate(row))}</tr>" for row in rows)
    label = f"<caption>{text_of(caption)}</caption>" if caption else ""
    above = f"<thead><tr>{head}</tr></thead>" if headers else ""
    style = f' class="{kind}"' if kind else ""
    return f"<table{style}>{label}{above}<tbody>{body}</tbody></table>"


def settings(rows: Sequence[Sequence[str]], headers: Sequence[str] = ()) -> str:
    """Render a table of settings, with a column per run."""
    return table(headers, rows, kind="settings")


def described(parts: Iterable[Mapping[str, Any] | None], names: Mapping[str, str] | None = None) -> dict[str, str]:
    """Describe settings by name, except None values; `names` has replacements for unreadable names."""
    return {
        (names or {}).get(name, name.replace("_", " ")): ("yes" if value else "no")
        if isinstance(value, bool)
        else str(value)
        for part in parts
        for name, value in (part or {}).items()
        if value is not None
    }


def _cell(cell: str | Cell, index: int) -> str:
    text, mark = (cell.text, cell.mark) if isinstance(cell, Cell) else (cell, "")
    if index == 0:
        return f'<th scope="row">{text_of(text)}</th>'
    return f'<td class="{mark}">{text_of(text)}</td>' if mark else f"<td>{text_of(text)}</td>"


def box(content: str) -> str:
    """Render a frame that scrolls sideways if its content is wider."""
    return f'<div class="box">{content}</div>'


def boxes(contents: Sequence[str]) -> str:
    """Render boxes side by side, if there is room."""
    return f'<div class="plots">{"".join(box(content) for content in contents if content)}</div>'


def date_of(text: object) -> str:
    """Format a date such as `2026-11-17T08:55:22+00:00` for people; return any other text unchanged."""
    try:
        return f"{datetime.fromisoformat(str(text)):%Y-%m-%d %H:%M %Z}"
    except ValueError:
        return str(text)


def sentences(texts: Sequence[str]) -> str:
    return "".join(f'<p class="note">{text_of(text)}</p>' for text in texts)
