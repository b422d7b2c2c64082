"""Fractions, in figures or as one sign."""

from __future__ import annotations

import unicodedata

from antiphon.audio.speech.forms.rule import Match, alternatives, number, numeric, rule
from antiphon.audio.speech.number_words import cardinal, ordinal

FRACTION_SIGNS = "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒"
#: Pairs that are read by groups of digits, whatever they mean.
_PAIRS = {
    "24/7/365": "twenty four seven three sixty five", "24/7": "twenty four seven", "9/11": "nine eleven",
    "50/50": "fifty fifty", "20/20": "twenty twenty", "7/11": "seven eleven",
}  # fmt: skip
_NAMED = {2: ("half", "halves"), 4: ("quarter", "quarters")}
#: Denominators that fractions have in running text; with others the numbers may be a date, a score or a ratio.
_DENOMINATORS = frozenset([*range(2, 21), 24, 30, 32, 40, 50, 60, 64, 70, 80, 90, 100, 128, 1000])


def fraction_words(text: str, whole: str = "") -> str | None:
    """Return `3/4` or `¾` in words, after a whole number if given; None if it is not read as a fraction."""
    if text in FRACTION_SIGNS:
        text = unicodedata.normalize("NFKC", text).replace("⁄", "/")
    top, _, bottom = text.partition("/")
    if int(bottom) not in _DENOMINATORS:
        return None
    one, many = _NAMED.get(int(bottom), (ordinal(bottom), f"{ordinal(bottom)}s"))
    words = f"{cardinal(top)} {one if int(top) == 1 else many}"
    if not whole:
        return words
    return f"{number(whole)} and " + (f"a {one}" if int(top) == 1 and int(bottom) in _NAMED else words)


def _mixed(match: Match) -> str | None:
    return fraction_words(match["fraction"], match["whole"])


def _over(match: Match) -> str:
    """Read a usual fraction as one, a possible date (12/25) neutrally, and others as one number over the other."""
    top, bottom = match["top"], match["bottom"]
    words = fraction_words(f"{top}/{bottom}")
    if words is not None:
        return words
    if 1 <= int(top) <= 31 and 1 < int(bottom) <= 31:
        return f"{cardinal(top)} {cardinal(bottom)}"
    return f"{cardinal(top)} over {cardinal(bottom)}"


RULES = [
    numeric(rf"(?<![\w./])(?:{alternatives(_PAIRS)})(?![\w/]|\.\d)", lambda m: _PAIRS[m[0]], "/"),
    numeric(r"(?<![\w./,])(?P<whole>\d{1,4})\s(?P<fraction>\d{1,2}/\d{1,3})(?![\w/]|\.\d)", _mixed, "/"),
    numeric(rf"(?<![\w./,])(?P<whole>\d{{1,4}})\s?(?P<fraction>[{FRACTION_SIGNS}])", _mixed, FRACTION_SIGNS),
    rule(rf"[{FRACTION_SIGNS}]", lambda m: fraction_words(m[0]), FRACTION_SIGNS),
    numeric(
        r"(?<![\w./])(?P<top>\d{1,6})\s?/\s?(?P<bottom>[1-9]\d{0,5})(?:(?i:st|nd|rd|th)s?)?(?![\w/]|\.\d)", _over, "/"
    ),
]
