"""Numbers whose thousands are grouped by spaces: 10 000."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import Match, after, before

_GROUPED = re.compile(r"(?<![\w.,:/+-])(?<!\d )[1-9]\d{0,2}(?: \d{3}){1,6}(?![\w:/-]|[.,]\d{3}|[ ]\d)")
#: Words before groups of digits that are not thousands: telephone numbers, codes, lists of numbers.
_NOT_A_NUMBER = re.compile(
    r"\b(?:call|dial|dialing|phone|telephone|tel|mobile|cell|fax|ring|text|ext|extension|hotline|code|codes|pin|zip|id|"
    r"account|card|serial|rooms|numbers|digits|scores|values|sequence|contact|reach|flight)\b[^.!?]{0,30}$",
    re.IGNORECASE,
)
_CURRENCY = re.compile(r"[$£€¥₹]\s?$")
_COUNTED = re.compile(r"\s?(?:[$£€¥₹%°]|[^\W\d_]|\.\d)")


def with_commas(text: str) -> str:
    """Replace spaces between groups of one number by commas. Positions in the text stay the same."""
    return _GROUPED.sub(_joined, text) if " " in text else text


def _joined(match: Match) -> str:
    written, left = match[0], before(match)
    groups = written.split(" ")
    if _NOT_A_NUMBER.search(left):
        return written
    # Two groups of three digits are often a telephone number, so they must count something.
    is_short = len(groups) == 2 and len(groups[0]) == 3
    if is_short and not (_CURRENCY.search(left) or _COUNTED.match(after(match))):
        return written
    if len(groups[0]) == 3 and len(groups) > 2 and not groups[-1].endswith("00"):
        return written
    return ",".join(groups)
