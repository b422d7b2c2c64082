"""Roman numerals, if the words around them show that they are numbers."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import Match, after, before, rule
from antiphon.audio.speech.number_words import cardinal, ordinal, year

_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_VALID = re.compile(r"M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
#: Words before a numeral: Chapter IV, World War II.
_NUMBERED_WORDS = (
    "chapter part volume book act scene section article appendix title phase type class stage level grade round figure "
    "table unit lesson season episode war bowl schedule division canto psalm sonnet symphony opus mark tier category "
    "factor amendment exhibit annex group generation vol no op ch pt"
)
_NUMBERED = frozenset(_NUMBERED_WORDS.split())
#: Given names of kings, queens and popes, and common ones: Henry VIII, John Paul II, Thurston Howell III.
_GIVEN_NAMES = (
    "Abdullah Adrian Albert Alexander Alexios Alfonso Andrew Anne Anthony Antiochus Arthur Artaxerxes Augustus Baldwin "
    "Benedict Boniface Callixtus Carl Catherine Charles Christian Christopher Clement Cleopatra Constantine Daniel "
    "Darius David Demetrius Edgar Edmund Edward Elizabeth Eric Ernest Eugene Felipe Ferdinand Francis Franz Frank "
    "Frederick Friedrich George Gregory Gustav Gustavus Haakon Harald Harold Henri Henry Hussein Innocent Isabella "
    "Ivan Jacob James Jan Jean Johann John Jon Joseph Juan Julius Justinian Karl Kenneth Konrad Leo Leopold Louis "
    "Magnus Manuel Margrethe Maria Martin Mary Maximilian Mehmed Michael Murad Mustafa Napoleon Nicholas Olaf Otto "
    "Owen Pablo Patrick Paul Pedro Peter Philip Philippe Pius Ptolemy Rainier Ramesses Ramses Richard Robert Rudolf "
    "Rudolph Sam Samuel Selim Shapur Sigismund Sixtus Stephen Steven Suleiman Theodore Thomas Thurston Thutmose Urban "
    "Victor Vittorio Walter Wilhelm Willem William Xerxes"
)
_GIVEN = frozenset(_GIVEN_NAMES.split())
_LAST_WORDS = re.compile(r"(?:(?P<earlier>[^\W\d_]+)\s+)?(?P<last>(?!the\s)[^\W\d_]+)(?P<dot>\.?)\s+(?P<the>the\s+)?$")
_ORDERED = re.compile(r"\s+(?:century|centuries|Century|dynasty|Dynasty|Corps|Olympi\w*|Congress|edition)\b")
#: Text after "I" as a pronoun.
_PRONOUN = re.compile(
    r"(?:['’]|\s+(?:am|have|had|think|thought|know|knew|want|wanted|like|liked|love|loved|wrote|write|read|saw|see|need|"
    r"will|would|could|can|may|might|should|must|do|did|said|say|say|mean|guess|hope|believe|found|met|made|"
    r"never|always|just|really|also|still)\b)"
)
#: Text after "I" as the number of a king: the end of a phrase, or a continuation about him.
_KING_GOES_ON = re.compile(
    r"\s*(?:$|[,.;:!?)(\]—–-]|'s\b)|\s+(?:of|was|is|became|died|ruled|reigned|who|and|to|in|on|from|by|or|the)\b"
)


def _value(numeral: str) -> int:
    values = [_VALUES[letter] for letter in numeral]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0], strict=True))


def _roman(match: Match) -> str | None:
    numeral, possessive = match["numeral"], match["possessive"] or ""
    if not _VALID.fullmatch(numeral):
        return None
    words = _LAST_WORDS.search(before(match))
    digits = str(_value(numeral))
    rest = (possessive or "") + after(match)
    if len(numeral) > 1 and _ORDERED.match(rest):
        return ordinal(digits)
    if words is not None and set(numeral) <= set("IVXL") and numeral != "L":
        last = words["last"]
        if last.lower() in _NUMBERED and not words["the"]:
            is_pronoun = numeral == "I" and (not last[0].isupper() or _PRONOUN.match(rest))
            return None if is_pronoun else cardinal(digits) + possessive
        is_name = not words["dot"] and (
            last in _GIVEN or (words["earlier"] in _GIVEN and last[0].isupper() and len(numeral) > 1)
        )
        if is_name and (numeral != "I" or (not _PRONOUN.match(rest) and _KING_GOES_ON.match(rest))):
            return f"{'' if words['the'] else 'the '}{ordinal(digits)}{possessive}"
    if len(numeral) >= 5 and numeral[0] == "M":
        return year(digits)
    if len(numeral) > 1 and set(numeral) <= set("IVX") and words is not None and words["last"].istitle():
        return cardinal(digits) + possessive  # Rocky II, Section VI
    return None


RULES = [rule(r"(?<![\w.&'/-])(?P<numeral>[IVXLCDM]{1,12})(?P<possessive>'s)?(?![\w&/'])", _roman, "IVXLCDM")]
