"""Postal addresses: house numbers, kinds of street, states and their codes. "St." and "Dr." are also titles."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import DIGITS, Match, after, alternatives, before, initials, numeric, rule
from antiphon.audio.speech.number_words import cardinal, spelled

_KINDS = {
    "St": "Street", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Dr": "Drive", "Ln": "Lane", "Ct": "Court",
    "Pl": "Place", "Sq": "Square", "Hwy": "Highway", "Expy": "Expressway", "Pkwy": "Parkway", "Ter": "Terrace",
    "Cir": "Circle", "Rte": "Route", "Trl": "Trail",
}  # fmt: skip
_KINDS |= {"hwy": "Highway", "st": "Street", "ave": "Avenue", "rd": "Road", "blvd": "Boulevard"}
#: Titles with the same abbreviation, which stand before a name.
_TITLES = {"St": "Saint", "Dr": "Doctor"}
#: Abbreviations without another meaning: they need no house number.
_CERTAIN = ("Ave", "Blvd", "Rd", "Hwy", "Expy", "Pkwy")
_DIRECTIONS = {
    "N": "North", "S": "South", "E": "East", "W": "West", "NE": "Northeast", "NW": "Northwest", "SE": "Southeast",
    "SW": "Southwest",
}  # fmt: skip
_STATE_LIST = (
    "AL:Alabama,AK:Alaska,AZ:Arizona,AR:Arkansas,CA:California,CO:Colorado,CT:Connecticut,DE:Delaware,DC:D C,"
    "FL:Florida,GA:Georgia,HI:Hawaii,ID:Idaho,IL:Illinois,IN:Indiana,IA:Iowa,KS:Kansas,KY:Kentucky,LA:Louisiana,"
    "ME:Maine,MD:Maryland,MA:Massachusetts,MI:Michigan,MN:Minnesota,MS:Mississippi,MO:Missouri,MT:Montana,"
    "NE:Nebraska,NV:Nevada,NH:New Hampshire,NJ:New Jersey,NM:New Mexico,NY:New York,NC:North Carolina,"
    "ND:North Dakota,OH:Ohio,OK:Oklahoma,OR:Oregon,PA:Pennsylvania,RI:Rhode Island,SC:South Carolina,"
    "SD:South Dakota,TN:Tennessee,TX:Texas,UT:Utah,VT:Vermont,VA:Virginia,WA:Washington,WV:West Virginia,"
    "WI:Wisconsin,WY:Wyoming"
)
_STATES = dict(entry.split(":") for entry in _STATE_LIST.split(","))
#: Codes that are also words: read as states only before a postal code.
_WORDS_TOO = ("OK", "HI", "OH", "ME", "IN", "OR", "ID", "PA", "MA", "LA", "DE", "CO")

_NAME = r"(?:[A-Z][\w'-]{0,30}\.?|\d{1,3}(?:st|nd|rd|th))"
_KIND = (
    rf"(?:(?:{alternatives(_KINDS)})\b|(?:Street|Avenue|Boulevard|Road|Drive|Lane|Court|Place|Square|Highway|Expressway|"
    r"Parkway|Terrace|Circle|Way)\b)"
)
_HOUSE_BEFORE = re.compile(rf"(?<![\w.,$£€])\d{{1,5}}[A-Za-z]?\s+(?:[NSEW]{{1,2}}\.?\s+)?(?:{_NAME}\s+){{1,4}}$")
_NAME_BEFORE = re.compile(r"(?:^|[\s(,;\"“])(?P<name>[A-Z][a-z'-]+|\d{1,3}(?:st|nd|rd|th))\s+$")
_NAME_AFTER = re.compile(r"\s+[A-Z][a-z']")
#: Words that begin a sentence and are hardly the name of a saint or doctor.
_SENTENCE_AFTER = re.compile(
    r"\s+(?:It|The|He|She|They|We|I|This|That|These|There|Then|In|On|At|A|An|But|And|So|If|When|Its|His|Her|Their|Our|My|"
    r"You|What|Who|Where|Is|Was|Are|No|Yes|For|After|Before)\b"
)
#: Words before "St." in the name of a place or person: Port St. Lucie, Church of St. John.
_BEFORE_SAINT = ("Mount", "Mt", "Port", "Bury", "Fort", "Lake", "Saint", "East", "West", "North", "South", "Cathedral")


def street_or_title(text: str, start: int, end: int) -> str | None:
    """Return the reading of "St." or "Dr." at a position: a kind of street, a title, or None for neither."""
    kind = text[start:end].rstrip(".")
    left, right = text[max(0, start - 48) : start], text[end : end + 48]
    if _HOUSE_BEFORE.search(left) and not (_NAME_AFTER.match(right) and not _SENTENCE_AFTER.match(right)):
        return _KINDS[kind]
    title = _TITLES.get(kind)
    named = _NAME_BEFORE.search(left)
    name_after = _NAME_AFTER.match(right) is not None and not _SENTENCE_AFTER.match(right)
    if named and named["name"] not in _BEFORE_SAINT and not name_after and (title or kind in _CERTAIN):
        return _KINDS[kind]
    if title and (name_after or text[end - 1] == "."):
        return title
    return None


def is_street(text: str, start: int, end: int) -> bool:
    """Return whether the word at a position abbreviates a kind of street."""
    word = text[start:end].rstrip(".")
    return word in _TITLES and street_or_title(text, start, end) == _KINDS[word]


def _kind(match: Match) -> str | None:
    return street_or_title(match.string, match.start(), match.end())


def _house(match: Match) -> str:
    """Read a house number: 2788 as twenty seven eighty eight, 708 as seven oh eight."""
    digits = match[0]
    if len(digits) == 5 or digits[0] == "0":
        return spelled(digits)
    head, tail = digits[:-2], digits[-2:]
    if not head or tail == "00":
        return cardinal(digits) if len(digits) < 4 or digits[1] == "0" else f"{cardinal(head)} hundred"
    return f"{cardinal(head)} " + (f"oh {cardinal(tail)}" if tail[0] == "0" else cardinal(tail))


def _direction(match: Match) -> str | None:
    return _DIRECTIONS[match["side"]] if re.search(r"\d[A-Za-z]?\s+$", before(match)) else None


def _state(match: Match) -> str | None:
    has_code = re.match(r",?\s+\d{5}\b", after(match))
    has_town = re.search(r"[A-Z][a-z]+,\s+$", before(match))
    if has_code or (has_town and match[0] not in _WORDS_TOO):
        return _STATES[match[0]]
    return None


def _postal_code(match: Match) -> str | None:
    found = re.search(r"\b([A-Z]{2}),?\s+$", before(match))
    if found is None or found[1] not in _STATES:
        return None
    return ", ".join(spelled(part) for part in match[0].split("-"))


_STREET_AFTER = rf"(?=\s+(?:[NSEW]{{1,2}}\.?\s+)?(?:{_NAME}\s+){{1,4}}{_KIND})"
RULES = [
    numeric(rf"(?<![\w.,$£€/-])\d{{3,5}}{_STREET_AFTER}", _house),
    rule(rf"\b(?P<side>[NS][EW]?|[EW])\b\.?(?=\s+(?:{_NAME}\s+){{1,4}}{_KIND})", _direction, "NSEW", DIGITS),
    rule(rf"(?<![\w.])(?:{alternatives(_KINDS)})\b\.?(?!\w)", _kind, initials(_KINDS)),
    rule(rf"\b(?:{'|'.join(_STATES)})\b", _state, initials(_STATES), f",{DIGITS}"),
    numeric(r"(?<![\w.,-])\d{5}(?:-\d{4})?(?![\w-]|[.,]\d)", _postal_code),
]
