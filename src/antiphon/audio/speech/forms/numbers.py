"""Plain numbers, ordinals, ranges, powers, versions, letters with digits."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.dates import number_or_year
from antiphon.audio.speech.forms.rule import (
    DIGITS,
    LETTERS,
    MINUS,
    MINUS_SIGNS,
    NUMBER,
    Match,
    after,
    before,
    number,
    numeric,
    rule,
)
from antiphon.audio.speech.number_words import cardinal, ordinal, spelled, year

#: Maximum digits of a plain number without commas. Longer ones are codes, read digit by digit unless they are round.
_LONGEST_PLAIN = 9
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
#: Start of a range: a number, perhaps with a unit, without another dash or letter before it.
_RANGE_START = re.compile(
    r"(?:^|[^\w.-])[$£€¥~]?(?:[\d.,:/]*\d)(?:\s?(?:[ap]\.?m\.?|%|°[CF]?|[a-z]{1,3}|[$£€¥]))?\s?$", re.IGNORECASE
)
_RANGE_GOES_ON = re.compile(r"[$£€¥~]?[\d.,:/]*\w*-\w")
_BOOK = re.compile(
    r"\b(?:Genesis|Exodus|Leviticus|Deuteronomy|Joshua|Judges|Ruth|Samuel|Kings|Chronicles|Ezra|Esther|Job|Psalms?|"
    r"Proverbs|Ecclesiastes|Isaiah|Jeremiah|Ezekiel|Daniel|Hosea|Amos|Matthew|Mark|Luke|John|Acts|Romans|Corinthians|"
    r"Galatians|Ephesians|Hebrews|James|Peter|Jude|Revelation)\s$"
)
_EQUALS_BEFORE = re.compile(r"=\s*[\w.+*/ ]*$")
_EQUALS_AFTER = re.compile(r"[\d.,\s+*/x-]*=")


def _plain(match: Match) -> str:
    text = match["number"]
    sign = "minus " if match["sign"] else ""
    if "." in text or "," in text:
        return sign + number(text)
    if len(text) > 1 and text[0] == "0":
        return sign + spelled(text)
    if len(text) > _LONGEST_PLAIN and not text.endswith("000000"):
        return sign + spelled(text)
    if len(text) == 4 and match.string[match.start() - 1 : match.start()] in ("x", "×"):
        return year(text)  # 1920x1080
    return sign + (cardinal(text) if sign else number_or_year(text))


def _ordinal(match: Match) -> str:
    return ordinal(match["digits"].replace(",", ""))


def _grouped_by_dots(match: Match) -> str:
    """Read a number with dots between thousands: `1.000.000` → one million, `1.234,56`."""
    return number(match[0].replace(".", "").replace(",", "."))


def _dash(match: Match) -> str | None:
    """Read a dash as "to" between two quantities, and as "minus" in an equation; not in a row of several."""
    left, right = before(match), after(match)
    if _EQUALS_BEFORE.search(left) or _EQUALS_AFTER.match(right):
        return "minus"
    if match[0][0] == "—" and (left[-1:].isspace() or match[0] != "—"):
        return None
    return "to" if _RANGE_START.search(left) and not _RANGE_GOES_ON.match(right) else None


def _power(match: Match) -> str:
    """Read the power after a base: `^2` → squared, `⁻³` → to the power of minus three."""
    written = (match["power"] or match["raised"]).translate(_SUPERSCRIPTS)
    if written in ("2", "3"):
        return {"2": "squared", "3": "cubed"}[written]
    sign = "minus " if written[0] in "-−" else ""
    digits = written.lstrip("-−+")
    return f"to the power of {sign}{cardinal(digits) if digits.isdigit() else digits}"


def _scientific(match: Match) -> str:
    """Read a number in scientific notation: `1e-5` → one times ten to the power of minus five."""
    sign = "minus " if match["sign"] in ("-", "−") else ""
    return f"{number(match['number'])} times ten to the power of {sign}{cardinal(match['power'])}"


def _version(match: Match) -> str:
    parts = [cardinal(part) if part[0] != "0" else spelled(part) for part in match["parts"].split(".")]
    is_named = match["v"] and not before(match).lower().endswith("version ")
    return ("version " if is_named else "") + " point ".join(parts)


def _ratio(match: Match) -> str:
    """Read a ratio: `16:9` → sixteen to nine; or chapter and verse after the name of a book: `John 3:5`."""
    is_verse = _BOOK.search(before(match)) is not None
    return f"{cardinal(match['first'])} {'' if is_verse else 'to '}{cardinal(match['second'])}"


def _letters_and_digits(match: Match) -> str | None:
    """Read letters and numbers separately: `B2B` → B two B."""
    if re.fullmatch(r"[1-9]\d*x\d[\dx]*", match[0]):
        return None  # 1920x1080
    pieces = re.findall(r"[A-Za-z]+|\d+", match[0])
    return " ".join(_code_digits(piece) if piece.isdigit() else _code_letters(piece) for piece in pieces)


def _code_digits(digits: str) -> str:
    if (digits[0] == "0" and len(digits) > 1) or len(digits) > 4:
        return spelled(digits)
    return year(digits) if len(digits) == 4 and not digits.endswith("00") else cardinal(digits)


def _code_letters(letters: str) -> str:
    is_short = len(letters) == 1 or (letters.isupper() and len(letters) < 4)
    return letters if re.search(r"[aeiouyAEIOUY]", letters) and not is_short else " ".join(letters)


def _plan(match: Match) -> str:
    """Read the name of a plan: `401(k)` → four oh one K."""
    last = f" {cardinal(match['last'])}" if match["last"] else ""
    return f"{cardinal(match['first'])} oh {cardinal(match['second'])} {match['letter'].upper()}{last}"


_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹"
_QUANTITY = r"[\w%°$€£¥.\"')]"
#: Rules that apply before the abbreviations.
FORMS = [
    numeric(r"\b(?P<digits>\d{1,3}(?:,\d{3}){1,6}|\d{1,40})(?i:st|nd|rd|th)\b", _ordinal, "tTdD"),
    numeric(r"\b(?P<first>[1-9])0(?P<second>\d)\((?P<letter>[a-z])\)(?:\((?P<last>\d)\))?", _plan, "("),
    numeric(
        r"(?<![\w.])(?P<number>\d{1,20}(?:\.\d{1,20})?)[eE](?P<sign>[-+−]?)(?P<power>\d{1,3})(?!\w|\.\d)",
        _scientific,
        "eE",
    ),
    numeric(
        r"(?<![\w.,])\d{1,3}(?:(?:\.\d{3}){1,6},\d{1,3}(?!\w|,\d)|(?:\.\d{3}){2,6}(?![\w.]))", _grouped_by_dots, "."
    ),
    rule(r"(?<![\w.])(?P<v>v)\.?\s?(?P<parts>\d{1,8}(?:\.\d{1,8}){0,5})(?!\w|\.\d)", _version, "v", DIGITS),
    numeric(r"(?<![\w.])(?P<v>)(?P<parts>\d{1,8}(?:\.\d{1,8}){2,5})(?!\w|\.\d)", _version, "."),
    numeric(r"(?<![\w.:])(?P<first>\d{1,4}):(?P<second>\d{1,4})(?![\w:]|\.\d)", _ratio, ":"),
    rule(rf"(?:(?<={_QUANTITY})|(?<={_QUANTITY}\s))[–—-]\s?(?=[$£€¥₹~]?\.?\d)", _dash, "-–—", DIGITS),
]
#: Rules that apply after all other forms with digits.
RULES = [
    numeric(
        r"\b(?=[A-Za-z]{0,60}\d)(?=\d{0,60}[A-Za-z])[A-Za-z\d]{1,200}\b", _letters_and_digits, DIGITS, starts=LETTERS
    ),
    numeric(
        rf"(?P<sign>(?<![\w.]){MINUS}(?=\.?\d))?(?P<number>{NUMBER}|(?<![\w.])\.\d{{1,40}})",
        _plain,
        starts=f"{MINUS_SIGNS}.",
    ),
    rule(
        rf"(?<=[\w)])(?:\^\(?(?P<power>[-−+]?(?:\d{{1,6}}|[a-zA-Z]))\)?"
        rf"|(?P<raised>(?:(?<=\b\w)|(?<=[\d)]))⁻?[{_RAISED}]{{1,6}}))",
        _power,
        f"^⁻{_RAISED}",
    ),
    rule(rf"[{_RAISED}⁻]{{1,9}}", lambda m: "", f"⁻{_RAISED}"),  # the mark of a footnote
    rule(rf"(?:(?<=\d)|(?<=\d\s))[x×](?=\s?10\s?[\^{_RAISED}⁻])", lambda m: "times", "x×", DIGITS),
    rule(
        r"(?<=\d)x(?=\d)|(?<=[\w\"”']\s)x(?=\s\d)|(?:(?<=\d{3})|(?<=\d{3}\s))×(?=\s?\d{3})",
        lambda m: "by",
        "x×",
        DIGITS,
    ),
]
