"""A report as one HTML file: no script, no request to anywhere, and a policy that allows neither."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from antiphon import __version__
from antiphon.bench.report.chart import swatch, text_of
from antiphon.bench.report.plots import Plot
from antiphon.bench.report.style import style_hash, style_sheet


@dataclass(frozen=True)
class FigureCard:
    """One figure, large."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is marked: `bad` or `better`."""

    text: str
    mark: str = ""


def page(title: str, subtitle: str, parts: Sequence[str]) -> str:
    """The whole file. `parts` are HTML; the texts are not."""
    style = style_sheet()
    policy = f"default-src 'none'; style-src '{style_hash(style)}'; base-uri 'none'; form-action 'none'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{text_of(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{text_of(title)}</h1><p>{text_of(subtitle)}</p></header>\n"
        + "\n".join(part for part in parts if part)
        + f"\n<footer>Written by antiphon {text_of(__version__)}.</footer>\n</main>\n</body>\n</html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Empty without parts."""
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
    """The text of a plot of several curves is its legend."""
    entries = "".join(
        f"<li>{swatch(entry.index)}<b>{text_of(entry.label)}</b>{': ' if entry.text else ''}{text_of(entry.text)}</li>"
        for entry in plot.legend
    )
    text = (f"<p>{text_of(plot.text)}</p>" if plot.text else "") + (f"<ul>{entries}</ul>" if entries else "")
    return (
        f'<figure>\n<h3 id="{plot.name}-title">{text_of(plot.title)}</h3>\n'
        f'<div class="words" id="{plot.name}-text">{text}</div>\n{plot.svg}\n<details><summary>Numbers</summary>'
        f'<div tabindex="0" role="region" aria-labelledby="{plot.name}-title">{table(plot.headers, plot.rows)}</div>'
        "</details>\n</figure>\n"
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[str | Cell]], caption: str = "") -> str:
    """The first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{text_of(header)}</th>' for header in headers)
    body = "".join(f"<tr>{''.join(_cell(cell, place) for place, cell in enumerate(row))}</tr>" for row in rows)
    label = f"<caption>{text_of(caption)}</caption>" if caption else ""
    return f"<table>{label}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def settings(rows: Sequence[Sequence[str]], headers: Sequence[str] = ()) -> str:
    """A table of settings: their names, and one column for each run."""
    head = "".join(f'<th scope="col">{text_of(header)}</th>' for header in headers)
    body = "".join(f"<tr>{''.join(_cell(cell, place) for place, cell in enumerate(row))}</tr>" for row in rows)
    above = f"<thead><tr>{head}</tr></thead>" if headers else ""
    return f'<table class="settings">{above}<tbody>{body}</tbody></table>'


def _cell(cell: str | Cell, place: int) -> str:
    text, mark = (cell.text, cell.mark) if isinstance(cell, Cell) else (cell, "")
    if place == 0:
        return f'<th scope="row">{text_of(text)}</th>'
    return f'<td class="{mark}">{text_of(text)}</td>' if mark else f"<td>{text_of(text)}</td>"


def box(content: str) -> str:
    """A frame that scrolls sideways where its content is wider."""
    return f'<div class="box">{content}</div>'


def boxes(contents: Sequence[str]) -> str:
    """Side by side where there is room."""
    return f'<div class="plots">{"".join(box(content) for content in contents if content)}</div>'


def date_of(text: object) -> str:
    """`2026-11-17T08:55:22+00:00` as people write it; anything else as it is."""
    try:
        return f"{datetime.fromisoformat(str(text)):%Y-%m-%d %H:%M %Z}"
    except ValueError:
        return str(text)


def sentences(texts: Sequence[str]) -> str:
    return "".join(f'<p class="note">{text_of(text)}</p>' for text in texts)
