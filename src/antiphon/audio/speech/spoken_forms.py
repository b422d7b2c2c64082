"""Spoken forms of text that is not words: numbers, dates, times, money, units, addresses, symbols.

Every rule is a pattern and a function from its match to words; `forms/` has them by subject. The first rule that
applies at a position wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from antiphon.audio.speech.forms import (
    abbreviations,
    codes,
    dates,
    electronic,
    fractions,
    measures,
    money,
    numbers,
    roman,
    streets,
    symbols,
    times,
)
from antiphon.audio.speech.forms.rule import LETTERS, Rule

_RULES: list[Rule] = [
    *electronic.RULES,
    *codes.RULES,
    *streets.RULES,
    *dates.RULES,
    *times.RULES,
    *money.RULES,
    *measures.RULES,
    *fractions.RULES,
    *numbers.FORMS,
    *abbreviations.RULES,
    *roman.RULES,
    *numbers.RULES,
    *symbols.RULES,
]


_BY_START: dict[str, list[Rule]] = {}
for _rule in _RULES:
    for _character in _rule.starts:
        _BY_START.setdefault(_character, []).append(_rule)
_OTHER_STARTS = "".join(character for character in _BY_START if character not in LETTERS)
#: Possible starts of a form: the start of a word, a digit or a sign.
_START = re.compile(rf"(?<![^\W\d_])[A-Za-z]|[{re.escape(_OTHER_STARTS)}]")


def spoken_forms(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield forms that are said differently than written: (start, end, words), in order. Words may be empty."""
    present = set(text)
    rules: dict[str, list[Rule]] = {}  # rules that the text can match, by first character
    start = _START.search(text)
    while start is not None:
        at = start.start()
        end = at + 1
        character = text[at]
        if character not in rules:
            rules[character] = [r for r in _BY_START.get(character, []) if not r.needs or r.needs & present]
        for rule in rules[character]:
            match = rule.pattern.match(text, at)
            words = None if match is None else rule.say(match)
            if match is not None and words is not None:
                end = match.end()
                yield at, end, words
                break
        start = _START.search(text, end)
