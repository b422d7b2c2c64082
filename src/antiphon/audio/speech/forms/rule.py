"""`Rule`: a pattern of written text and its reading; helpers of all subjects."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from antiphon.audio.speech.number_words import cardinal, decimal

Match = re.Match[str]
#: Function from a match to spoken words. An empty string is silent; None means that the match is of another form.
Say = Callable[[Match], str | None]

DIGITS = string.digits
LETTERS = string.ascii_letters
#: Characters before and after a match that a rule may read. The bound keeps the time linear in the text.
WINDOW = 48

#: Number such as 12, 1,250,000 or 3.14.
NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,8}(?!\d)|\d{1,40})(?:\.\d{1,40})?"
DASH = r"[–—-]"
MINUS = r"[-−]"
MINUS_SIGNS = "-−"


@dataclass(frozen=True)
class Rule:
    """Pattern and its reading.

    A rule is tried only at the characters in `starts` (at a letter, only if a word begins there), and only in texts
    with one of the characters in `needs`, if any.
    """

    pattern: re.Pattern[str]
    say: Say
    starts: frozenset[str]
    needs: frozenset[str] = frozenset()


def rule(pattern: str, say: Say, starts: Iterable[str], needs: str = "") -> Rule:
    return Rule(re.compile(pattern), say, frozenset(starts), frozenset(needs))


def numeric(pattern: str, say: Say, needs: str = "", starts: str = "") -> Rule:
    """Build a rule that begins with a digit, or with one of the characters of `starts`."""
    return rule(pattern, say, DIGITS + starts, needs)


def initials(entries: Iterable[str]) -> str:
    """Return the first characters of the entries, sorted and without duplicates."""
    return "".join(sorted({entry[0] for entry in entries}))


def before(match: Match) -> str:
    """Return at most `WINDOW` characters before a match."""
    return match.string[max(0, match.start() - WINDOW) : match.start()]


def after(match: Match) -> str:
    """Return at most `WINDOW` characters after a match."""
    return match.string[match.end() : match.end() + WINDOW]


def number(text: str) -> str:
    """Return a number in words, as `NUMBER` matches it."""
    text = text.replace(",", "")
    return decimal(text) if "." in text else cardinal(text)


def is_one(text: str) -> bool:
    return text.replace(",", "") == "1"


def alternatives(entries: Iterable[str]) -> str:
    """Return a pattern of literal texts, the longest first."""
    return "|".join(re.escape(entry) for entry in sorted(entries, key=len, reverse=True))
