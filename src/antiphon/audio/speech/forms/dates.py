"""Dates, years, decades and quarters."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import DASH, DIGITS, Match, after, alternatives, before, initials, numeric, rule
from antiphon.audio.speech.number_words import cardinal, ordinal, year

MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
]  # fmt: skip
_MONTH_OF = {month[:3].lower(): month for month in MONTHS} | {"sept": "September"}
_SHORT = [*(month[:3] for month in MONTHS if month != "May"), "Sept"]
#: Names of months as they begin a date. `may` and `march` are verbs too: in small letters they need a year.
_NAMES = [*MONTHS, *(month.upper() for month in MONTHS), *(m.lower() for m in MONTHS if m not in ("March", "May"))]
_ABBREVIATED = [*_SHORT, *(m.upper() for m in _SHORT), *(m.lower() for m in _SHORT if m not in ("Mar", "Dec"))]
_MONTH = rf"{alternatives(_NAMES)}|(?:{alternatives(_ABBREVIATED)})\b\.?"
_WEEKDAYS = {
    "Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday", "Thur": "Thursday",
    "Thurs": "Thursday", "Fri": "Friday", "Sat": "Saturday", "Sun": "Sunday",
}  # fmt: skip
_RANGE = r"\s?[–-]\s?"
_SUFFIX = r"(?:(?i:st|nd|rd|th)\b)?"
_YEAR = r"(?:,?\s+(?P<year>\d{4})(?![\w:]|[.,]\d))?"
#: Words that serve as the article of a date such as "the 4th of July".
_HAS_ARTICLE = re.compile(r"\b(?i:the|this|that|each|every|his|her|its|our|my|your|their|next|last|a)\s+$")
_DECADE_CUE = re.compile(r"(?:\b(?i:the|early|late|mid|his|her|their|my|your|our|its)[\s-]+|\ds?\s?[–-]\s?)$")
_DATE_CUE = re.compile(
    r"\b(?:on|dated|until|since|before|after|by|due|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day,?)\s+$", re.IGNORECASE
)
_NOT_A_DATE = re.compile(r"\s*(?:of\b|%|[–—-]?\s?(?:inch|cup|mile|pound|tea|table|hour|full|empty|done|way))")


def number_or_year(digits: str) -> str:
    """Return four digits from 1100 to 2099 as a year, others as a number."""
    return year(digits) if len(digits) == 4 and 1100 <= int(digits) < 2100 else cardinal(digits)


def _name(month: str) -> str:
    return _MONTH_OF.get(month.lower()[:4].rstrip("."), "") or _MONTH_OF[month.lower()[:3]]


def _is_day(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _short_year(digits: str) -> str:
    """Return a year of four or two digits in words: `05` → oh five."""
    if len(digits) == 4:
        return year(digits)
    return f"oh {cardinal(digits)}" if digits[0] == "0" and digits != "00" else cardinal(digits)


def _date(month: str, day: str, year_: str | None) -> str:
    return f"{month} {ordinal(day)}" + (f" {_short_year(year_)}" if year_ else "")


def _month_first(match: Match) -> str | None:
    """Read a date with the month first: `May 6th, 2024` → May sixth twenty twenty four; also `May 6-8`."""
    if not 1 <= int(match["day"]) <= 31:
        return None
    last = f" to {ordinal(match['last'])}" if match["last"] else ""
    said = f"{_name(match['month'])} {ordinal(match['day'])}{last}"
    return said + (f" {year(match['year'])}" if match["year"] else "")


def _day_first(match: Match) -> str | None:
    if not 1 <= int(match["day"]) <= 31:
        return None
    article = "" if _HAS_ARTICLE.search(before(match)) else "the "
    said = f"{article}{ordinal(match['day'])} of {_name(match['month'])}"
    return said + (f" {year(match['year'])}" if match["year"] else "")


def _dashed(match: Match) -> str:
    """Read a date with dashes: `15-Jan-2020`, `Jan-15-2020` → January fifteenth twenty twenty."""
    return _date(_name(match["month"]), match["day"], match["year"])


def _year_first(match: Match) -> str | None:
    """Read an ISO date, perhaps with a time: `2024-03-05`, `2024-03-05T14:30Z`."""
    month, day = int(match["month"]), int(match["day"])
    if not _is_day(month, day):
        return None
    said = _date(MONTHS[month - 1], match["day"], match["year"])
    if match["hour"]:
        hour, minute = match["hour"], match["minute"]
        said += f", {cardinal(hour)} " + ("hundred" if minute == "00" else spoken_minute(minute))
    return said + (" U T C" if match["zone"] else "")


def spoken_minute(minute: str) -> str:
    return f"oh {cardinal(minute)}" if minute[0] == "0" else cardinal(minute)


def _numbers(match: Match) -> str | None:
    """Read `3/5/2024` with the month first; with the day first if dots are used or the first number is no month."""
    month, day = int(match["first"]), int(match["second"])
    if match["sign"] == "." and len(match["year"]) == 2:
        return None  # a version number
    if (month > 12 or match["sign"] == ".") and day <= 12:
        month, day = day, month
    return _date(MONTHS[month - 1], str(day), match["year"]) if _is_day(month, day) else None


def _month_and_day(match: Match) -> str | None:
    """Read `3/4` as a date only if the words around indicate one; otherwise it is a fraction."""
    month, day = int(match["first"]), int(match["second"])
    is_date = match[0] != "9/11" and _DATE_CUE.search(before(match)) and not _NOT_A_DATE.match(after(match))
    return _date(MONTHS[month - 1], str(day), None) if is_date and _is_day(month, day) else None


def _decade(match: Match) -> str | None:
    """Read a decade: `1990s`, `'90s`, `80's`; `30s` only after words that indicate one, since it can mean seconds."""
    digits = match["digits"]
    if match[0] == f"{digits}s" and len(digits) == 2 and not _DECADE_CUE.search(before(match)):
        return None
    words = (year(digits) if len(digits) == 4 else cardinal(digits)).split()
    last = words[-1]
    words[-1] = f"{last[:-1]}ies" if last.endswith("y") else f"{last}es" if last.endswith("x") else f"{last}s"
    return " ".join(words)


def _early_year(digits: str) -> str:
    """Return an early year in words: 340 as three forty, 79 as seventy nine."""
    if len(digits) == 4:
        return year(digits)
    if len(digits) < 3 or digits.endswith("00"):
        return cardinal(digits)
    return f"{cardinal(digits[0])} {spoken_minute(digits[1:])}"


def _weekday(day: str) -> str:
    return _WEEKDAYS.get(day.capitalize(), day.capitalize())


def _weekdays(match: Match) -> str:
    """Read a range of weekdays: `Mon–Fri` → Monday to Friday."""
    return f"{_weekday(match['first'])} to {_weekday(match['last'])}"


def _months(match: Match) -> str:
    """Read a range of months: `Jan–Mar` → January to March."""
    return f"{_name(match['first'])} to {_name(match['last'])}"


def _letters(era: str) -> str:
    return " ".join(era.replace(".", "").upper())


def _season(match: Match) -> str | None:
    """Read two successive years: `2023/24` → twenty twenty three twenty four."""
    first, second = match["first"], match["second"]
    if (int(first) + 1) % 100 != int(second):
        return None
    return f"{year(first)} {_short_year(second)}"


_PARTS_OF_YEAR = {"Q": "quarter", "H": "half"}


def _part_of_year(match: Match) -> str:
    """Read a quarter or half of a year: `2Q22` → the second quarter of twenty two."""
    return f"the {ordinal(match['part'])} {_PARTS_OF_YEAR[match['kind']]} of {_short_year(match['year'])}"


_DAY_NAMES = [*_WEEKDAYS, *dict.fromkeys(_WEEKDAYS.values())]
_DAY_NAMES += [name.upper() for name in _DAY_NAMES]
_MONTH_NAMES = [*MONTHS, *_SHORT]
_MONTH_NAMES += [name.upper() for name in _MONTH_NAMES]
_ONE_DAY, _ONE_MONTH = alternatives(_DAY_NAMES), alternatives(_MONTH_NAMES)
_MONTH_STARTS = initials(MONTHS).upper() + initials(MONTHS).lower()
RULES = [
    rule(
        rf"(?<![\w–-])(?P<first>{_ONE_DAY})\.?{_RANGE}(?P<last>{_ONE_DAY})\b(?!\s?[–-]\w)\.?",
        _weekdays,
        initials(_WEEKDAYS),
        "–-",
    ),
    rule(
        rf"(?<![\w–-])(?P<first>{_ONE_MONTH})\.?{_RANGE}(?P<last>{_ONE_MONTH})\b(?!\s?[–-]\w)\.?",
        _months,
        initials(MONTHS),
        "–-",
    ),
    numeric(
        r"\b(?P<year>\d{4})(?P<sign>[-/.])(?P<month>\d{1,2})(?P=sign)(?P<day>\d{1,2})"
        r"(?:T(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d(?:\.\d{1,9})?)?(?P<zone>Z)?)?(?![\w/]|[-.]\d)",
        _year_first,
        "-/.",
    ),
    numeric(
        r"(?<![\w./-])(?P<first>\d{1,2})(?P<sign>[-/.])(?P<second>\d{1,2})(?P=sign)(?P<year>\d{4}|\d{2})"
        r"(?![\w/]|[-.]\d)",
        _numbers,
        "-/.",
    ),
    numeric(r"\b(?P<first>1[2-9]\d\d|20\d\d)/(?P<second>\d{2})(?![\w/])", _season, "/"),
    numeric(r"(?<![\w./])(?P<first>\d{1,2})/(?P<second>\d{1,2})(?![\w/])", _month_and_day, "/"),
    rule(
        rf"\b(?P<month>{_MONTH})\s+(?:the\s+)?(?P<day>\d{{1,2}}){_SUFFIX}(?:\s?{DASH}\s?(?P<last>[0-3]?\d){_SUFFIX})?"
        rf"(?![\w:%]|\.\d|,\d{{3}}){_YEAR}",
        _month_first,
        _MONTH_STARTS,
        DIGITS,
    ),
    rule(
        rf"\b(?P<month>may|march|mar|dec)\s+(?P<day>\d{{1,2}}){_SUFFIX}(?P<last>),?\s+(?P<year>\d{{4}})\b",
        _month_first,
        "md",
        DIGITS,
    ),
    numeric(rf"(?<![\w.,$£€])(?P<day>\d{{1,2}}){_SUFFIX}\s+(?:of\s+)?(?P<month>{_MONTH})(?!\w){_YEAR}", _day_first),
    numeric(
        rf"(?<![\w.,$£€])(?P<day>\d{{1,2}}){_SUFFIX}\s+(?:of\s+)?(?P<month>may|march),?\s+(?P<year>\d{{4}})\b",
        _day_first,
        "m",
    ),
    numeric(rf"\b(?P<day>\d{{1,2}})-(?P<month>{_MONTH})-(?P<year>\d{{4}}|\d\d)\b", _dashed, "-"),
    rule(rf"\b(?P<month>{_MONTH})-(?P<day>\d{{1,2}})(?:-(?P<year>\d{{4}}))?(?![\w-])", _dashed, _MONTH_STARTS, DIGITS),
    rule(rf"\b(?:{alternatives(_SHORT)})(?:\.(?!\w)|(?=\s+'?\d))", lambda m: _name(m[0]), initials(MONTHS)),
    rule(
        rf"\b(?P<day>{alternatives(_WEEKDAYS)})(?:\.?(?=,?\s+(?:\d|{alternatives(MONTHS + _SHORT)})))\.?",
        lambda m: _WEEKDAYS[m["day"]],
        initials(_WEEKDAYS),
    ),
    numeric(r"(?<![\w.])(?P<digits>\d{4}|\d0)'?s\b", _decade, "s"),
    rule(r"(?<!\w)'(?P<digits>\d0)s\b", _decade, "'"),
    rule(r"(?<!\w)'(?P<digits>\d\d)(?![\w'])", lambda m: _short_year(m["digits"]), "'"),
    numeric(
        r"(?<![\w.,])(?P<digits>\d{1,4})\s?(?P<era>BCE?|CE|AD|B\.C\.(?:E\.)?|C\.E\.|A\.D\.?)(?!\w)",
        lambda m: f"{_early_year(m['digits'])} {_letters(m['era'])}",
        "BCA",
    ),
    rule(
        r"\b(?P<era>AD|A\.D\.)\s(?P<digits>\d{1,4})(?!\w)",
        lambda m: f"{_letters(m['era'])} {_early_year(m['digits'])}",
        "A",
    ),
    numeric(r"\b(?P<part>[1-4])(?P<kind>[QH])'?(?P<year>\d{4}|\d\d)\b", _part_of_year, "QH"),
    rule(r"\bFY\s?'?(?P<year>\d{4}|\d\d)\b", lambda m: f"fiscal year {_short_year(m['year'])}", "F"),
]
