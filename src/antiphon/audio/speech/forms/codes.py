"""Numbers that are read digit by digit: telephones, ISBNs, network addresses, cards, codes."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import DIGITS, Match, before, numeric, rule
from antiphon.audio.speech.number_words import cardinal, spelled

_DIGIT_GROUPS = re.compile(r"\d+|[A-Z]+")
_EXTENSION = r"(?:,?\s?(?:x|ext\.?|extension)\s?(?P<extension>\d{1,6}))?\b"
_CALL = re.compile(r"\b(?i:call|phone|dial|tel|telephone|fax|text|mobile|cell|ring)\b\W{0,3}(?:\w+\W+){0,3}$")
_DIAL = re.compile(r"\b(?i:call|calls|called|calling|dial|dialed|dialled|phone)\s+$")
_CODE = re.compile(
    r"(?i:\b(?:pin|otp|passcode|password|zip|postcode|code|ssn|account(?: number)?)"
    r"(?:\s+(?:is|was|number|no\.?))?[:\s#]*|\bending (?:in|with)\s+)$"
)
_ROUND = {"800": "eight hundred", "900": "nine hundred"}


def _digits(text: str) -> str:
    """Read groups of digits one by one with pauses between the groups; groups of letters stay words."""
    groups = _DIGIT_GROUPS.findall(text)
    return ", ".join(_ROUND.get(g, spelled(g)) if g.isdigit() else g for g in groups)


def _extended(match: Match, words: str) -> str:
    extension = match["extension"]
    return f"{words}, extension {spelled(extension)}" if extension else words


def _international(match: Match) -> str | None:
    """Read an international telephone number: `+44 20 7946` → plus four four, two zero, seven nine four six."""
    number = match["number"]
    if not 7 <= sum(c.isdigit() for c in number) <= 15:
        return None
    groups = re.findall(r"\d+", number)
    if len(groups) == 1:  # groups of three, the last of four
        digits = groups[0]
        groups = [digits[at : at + 3] for at in range(0, len(digits) - 4, 3)] + [digits[-4:]]
        groups[-2] = digits[3 * (len(groups) - 2) : -4]
    return _extended(match, "plus " + ", ".join(spelled(group) for group in groups))


def _national(match: Match) -> str:
    return _extended(match, _digits(match["number"]))


def _with_leading_zero(match: Match) -> str | None:
    """Read a telephone number with a leading zero by its groups: `020 7946 0958`, `01 23 45 67 89`."""
    return _digits(match[0]) if 9 <= sum(c.isdigit() for c in match[0]) <= 11 else None


def _local(match: Match) -> str | None:
    """Read a local telephone number after a word such as "call", or with the exchange of examples: `555-1234`."""
    return _digits(match[0]) if match[0].startswith("555") or _CALL.search(before(match)) else None


def _service(match: Match) -> str | None:
    """Read a service number after a word such as "call": `911` → nine one one."""
    return spelled(match[0]) if _DIAL.search(before(match)) else None


def _isbn(match: Match) -> str | None:
    number = match["number"]
    if sum(c.isalnum() for c in number) not in (10, 13):
        return None
    groups = re.findall(r"\d+|X", number)
    name = "I S B N, " if match["name"] else ""
    return name + ", ".join(spelled(group) if group.isdigit() else group for group in groups)


def _network(match: Match) -> str:
    """Read a network address, perhaps with a port or a prefix length: `192.168.0.1:8080`, `10.0.0.0/8`."""
    words = " dot ".join(spelled(part) for part in match["address"].split("."))
    if match["port"]:
        words += f" colon {spelled(match['port'])}"
    return words + (f" slash {cardinal(match['bits'])}" if match["bits"] else "")


_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_GROUPS = r"(?:[ .-]?\(\d{1,5}\)|(?:[ .-]|(?<=\)))\d{1,8}(?!\d)){0,6}"
RULES = [
    rule(r"(?P<name>\bISBN(?:-1[03])?:?\s?)(?P<number>\d[\d -]{8,15}[\dX])\b", _isbn, "I", DIGITS),
    numeric(r"(?P<name>)(?<![\w-])(?P<number>97[89]-\d{1,5}-\d{1,7}-\d{1,7}-\d)(?![\w-])", _isbn, "-"),
    rule(rf"(?<![\w+])(?P<number>\+\d{{1,15}}{_GROUPS}){_EXTENSION}", _international, "+", DIGITS),
    numeric(
        r"(?<![\w.-])(?P<number>(?:1[ .-])?(?:\(\d{3}\)[ -]?|\d{3}[ .-])\d{3}[ .-]\d{4}(?:-\d{1,4})?)"
        rf"{_EXTENSION}(?![-.]\d)",
        _national,
        starts="(",
    ),
    numeric(rf"(?<![\w.-])(?P<number>1-8\d\d(?:-(?:[A-Z]+|\d{{1,7}})){{1,4}}){_EXTENSION}(?!-)", _national, "-"),
    numeric(r"(?<![\w.-])0\d{1,4}(?:[ -]\d{2,6}){1,4}(?![\w-]|[.,]\d)", _with_leading_zero),
    numeric(r"(?<![\w.-])[2-9]\d\d-\d{4}(?![\w-]|[.,]\d)", _local, "-"),
    numeric(r"(?<![\w.-])\d{3}-\d\d-\d{4}(?![\w-])", lambda m: _digits(m[0]), "-"),
    numeric(r"(?<![\w.-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", lambda m: _digits(m[0])),
    numeric(
        rf"(?<![\w.])(?P<address>{_OCTET}(?:\.{_OCTET}){{3}})(?![\w.]\d|\d)"
        r"(?::(?P<port>\d{1,5})|/(?P<bits>\d{1,2}))?(?!\w)",
        _network,
        ".",
    ),
    numeric(r"(?<![\w.,$£€-])(?:[1-9]11|999|112|988)(?![\w-]|[.,:]\d)", _service),
    numeric(r"(?<![\w.,$£€-])\d{3,12}(?![\w-]|[.,:]\d)", lambda m: spelled(m[0]) if _CODE.search(before(m)) else None),
]
