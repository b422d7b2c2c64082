"""`Rule`: a pattern of written text and how it is read; what the subjects share."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from antiphon.audio.speech.number_words import cardinal, decimal

Match = re.Match[str]
#: Spoken words; an empty string is silent, and None declines: the match is not of this form after all.
Say = Callable[[Match], str | None]

DIGITS = string.digits
LETTERS = string.ascii_letters
#: How far a rule looks around its match. It is bounded, so that reading takes time linear in the text.
WINDOW = 48

#: 12 or 1,250,000 or 3.14.
NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,8}(?!\d)|\d{1,40})(?:\.\d{1,40})?"
DASH = r"[–—-]"
MINUS = r"[-−]"
MINUS_SIGNS = "-−"


@dataclass(frozen=True)
class Rule:
    """A pattern and its reading.

    It is tried only at the characters of `starts` (at a letter, only if a word begins there), and only in texts that
    have one of the characters that it `needs`, if it needs any.
    """

    pattern: re.Pattern[str]
    say: Say
    starts: frozenset[str]
    needs: frozenset[str] = frozenset()


def rule(pattern: str, say: Say, starts: Iterable[str], needs: str = "") -> Rule:
    return Rule(re.compile(pattern), say, frozenset(starts), frozenset(needs))


def numeric(pattern: str, say: Say, needs: str = "", starts: str = "") -> Rule:
    """A rule that begins with a digit, or with one of the characters of `starts`."""
    return rule(pattern, say, DIGITS + starts, needs)


def initials(entries: Iterable[str]) -> str:
    """The characters that the entries begin with."""
    return "".join(sorted({entry[0] for entry in entries}))


def before(match: Match) -> str:
    """The text just before a match."""
    return match.string[max(0, match.start() - WINDOW) : match.start()]


def after(match: Match) -> str:
    """The text just after a match."""
    return match.string[match.end() : match.end() + WINDOW]


def number(text: str) -> str:
    """A number as `NUMBER` matches it, in words."""
    text = text.replace(",", "")
    return decimal(text) if "." in text else cardinal(text)


def is_one(text: str) -> bool:
    return text.replace(",", "") == "1"


def alternatives(entries: Iterable[str]) -> str:
    """A pattern of literal texts, the longest first."""
    return "|".join(re.escape(entry) for entry in sorted(entries, key=len, reverse=True))
