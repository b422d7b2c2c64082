"""What is read out for things that are not words: numbers, dates, times, money, units, addresses, symbols.

Every rule is a pattern and a function from its match to words. The first rule that matches at a place wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from antiphon.audio.speech.number_words import cardinal, decimal, ordinal, spelled, year

Match = re.Match[str]

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_MONTH_OF = {month[:3].lower(): month for month in _MONTHS} | {"sept": "September"}
_MONTH = "|".join([*_MONTHS, *(rf"{month[:3]}\.?" for month in _MONTHS if len(month) > 3), r"Sept\.?"])

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_MAGNITUDES = {"k": "thousand", "m": "million", "bn": "billion", "b": "billion", "tn": "trillion"}

#: Unit → (one, many).
_UNITS = {
    "km": ("kilometer", "kilometers"), "m": ("meter", "meters"), "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"), "mi": ("mile", "miles"), "ft": ("foot", "feet"), "yd": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"),
    "lb": ("pound", "pounds"), "lbs": ("pound", "pounds"), "oz": ("ounce", "ounces"),
    "l": ("liter", "liters"), "L": ("liter", "liters"), "ml": ("milliliter", "milliliters"),
    "s": ("second", "seconds"), "ms": ("millisecond", "milliseconds"), "min": ("minute", "minutes"),
    "h": ("hour", "hours"), "hr": ("hour", "hours"), "hrs": ("hour", "hours"),
    "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"), "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"), "KB": ("kilobyte", "kilobytes"), "kB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"), "GB": ("gigabyte", "gigabytes"), "TB": ("terabyte", "terabytes"),
    "W": ("watt", "watts"), "kW": ("kilowatt", "kilowatts"), "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"), "mph": ("mile per hour", "miles per hour"),
    "km/h": ("kilometer per hour", "kilometers per hour"), "m/s": ("meter per second", "meters per second"),
    "°C": ("degree Celsius", "degrees Celsius"), "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"), "%": ("percent", "percent"), "px": ("pixel", "pixels"),
}  # fmt: skip

_ABBREVIATIONS = {
    "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Dr.": "Doctor", "Prof.": "Professor", "St.": "Saint",
    "Jr.": "Junior", "Sr.": "Senior", "Gen.": "General", "Sgt.": "Sergeant", "Capt.": "Captain", "Lt.": "Lieutenant",
    "Col.": "Colonel", "Gov.": "Governor", "Sen.": "Senator", "Rep.": "Representative", "Rev.": "Reverend",
    "Hon.": "Honorable", "Mt.": "Mount", "Ft.": "Fort", "Ave.": "Avenue", "Blvd.": "Boulevard", "Rd.": "Road",
    "vs.": "versus", "vs": "versus", "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is",
    "approx.": "approximately", "dept.": "department", "est.": "established", "fig.": "figure", "Fig.": "Figure",
    "Inc.": "Incorporated", "Ltd.": "Limited", "Corp.": "Corporation", "Co.": "Company", "vol.": "volume",
    "pp.": "pages", "No.": "Number", "no.": "number",
}  # fmt: skip
#: These end a sentence as often as not, so their dot is read only before a number ("No. 5").
_BEFORE_NUMBERS = ("No.", "no.", "pp.", "vol.", "fig.", "Fig.")
#: Titles whose dot never ends a sentence.
TITLES = frozenset(
    [
        "Mr",
        "Mrs",
        "Ms",
        "Dr",
        "Prof",
        "St",
        "Gen",
        "Sgt",
        "Capt",
        "Lt",
        "Col",
        "Gov",
        "Sen",
        "Rep",
        "Rev",
        "Hon",
        "Mt",
        "Ft",
        "vs",
        "eg",
        "ie",
        "approx",
        "fig",
        "Fig",
    ]
)

_SYMBOLS = {
    "&": "and", "@": "at", "+": "plus", "=": "equals", "%": "percent", "#": "number", "°": "degrees", "×": "times",
    "÷": "divided by", "±": "plus or minus", "≈": "about", "≤": "at most", "≥": "at least", "≠": "is not",
    "<": "less than", ">": "greater than", "§": "section", "©": "copyright", "®": "registered", "™": "trademark",
    "½": "one half", "¼": "one quarter", "¾": "three quarters", "→": "to", "√": "square root of", "∞": "infinity",
    "π": "pi", "µ": "micro", "$": "dollar", "£": "pound", "€": "euro", "¥": "yen", "₹": "rupee",
}  # fmt: skip
_ADDRESS_SYMBOLS = {
    ".": "dot", "/": "slash", "-": "dash", "_": "underscore", "@": "at", ":": "colon", "#": "hash",
    "?": "question mark", "=": "equals", "&": "and", "%": "percent", "+": "plus", "~": "tilde",
}  # fmt: skip
_TOP_DOMAINS = "com|org|net|io|edu|gov|ai|dev|co|uk|de|fr|info|app|me|us|ca|eu"

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"


def _number(text: str) -> str:
    text = text.replace(",", "")
    return decimal(text) if "." in text else cardinal(text)


def _is_one(text: str) -> bool:
    return text.replace(",", "") == "1"


def _address(match: Match) -> str:
    """A web or mail address: the parts as words, signs by name."""
    text = re.sub(r"^https?://", "", match[0]).rstrip("/")
    words = []
    for piece in re.findall(r"[A-Za-z]+|\d+|[^A-Za-z\d]", text):
        if piece.isdigit():
            words.append(cardinal(piece) if len(piece) < 3 else spelled(piece))
        elif piece.isalpha():
            short = piece.lower() in ("www", "io", "uk", "ai", "us", "eu", "de", "fr")
            words.append(" ".join(piece.upper()) if short else piece)
        else:
            words.append(_ADDRESS_SYMBOLS.get(piece, ""))
    return " ".join(word for word in words if word)


def _date(month: str, day: str, year_: str | None) -> str:
    name = _MONTH_OF[month.rstrip(".").lower()[:4] if month.lower().startswith("sept") else month[:3].lower()]
    return f"{name} {ordinal(day)}" + (f" {year(year_)}" if year_ else "")


def _month_first(match: Match) -> str:
    return _date(match["month"], match["day"], match["year"])


def _day_first(match: Match) -> str:
    said = _date(match["month"], match["day"], None).split(" ", 1)
    article = "" if match.string[: match.start()].rstrip().lower().endswith(" the") else "the "
    return f"{article}{said[1]} of {said[0]}" + (f" {year(match['year'])}" if match["year"] else "")


def _plain_date(match: Match) -> str:
    """2024-03-05."""
    month, day = int(match["month"]), int(match["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return f"{year(match['year'])} {_number(match['month'])} {_number(match['day'])}"
    return _date(_MONTHS[month - 1], match["day"], match["year"])


def _slash_date(match: Match) -> str:
    """3/5/2024, the American way round; the other where the first number is no month."""
    month, day = int(match["first"]), int(match["second"])
    if month > 12 >= day:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return f"{cardinal(match['first'])} slash {cardinal(match['second'])} slash {_number(match['year'])}"
    return _date(_MONTHS[month - 1], str(day), match["year"])


def _time(match: Match) -> str:
    hour, minute = cardinal(match["hour"]), match["minute"]
    if not minute:
        words = hour
    elif minute == "00":
        words = hour if match["half"] else f"{hour} o'clock"
    else:
        words = f"{hour} oh {cardinal(minute)}" if minute[0] == "0" else f"{hour} {cardinal(minute)}"
    half = match["half"]
    return f"{words} {' '.join(half[0].upper() + 'M')}" if half else words


def _money(match: Match) -> str:
    one, many, cent, cents = _CURRENCIES[match["currency"]]
    amount, magnitude = match["amount"], match["magnitude"]
    if magnitude:
        word = _MAGNITUDES.get(magnitude.lower(), magnitude.lower())
        return f"{_number(amount)} {word} {many}"
    whole, _, fraction = amount.replace(",", "").partition(".")
    if len(fraction) != 2 or not cent:
        return f"{_number(amount)} {one if _is_one(amount) else many}"
    parts = []
    if int(whole) or not int(fraction):
        parts.append(f"{cardinal(whole)} {one if int(whole) == 1 else many}")
    if int(fraction):
        parts.append(f"{cardinal(fraction)} {cent if int(fraction) == 1 else cents}")
    return " and ".join(parts)


def _unit(match: Match) -> str:
    one, many = _UNITS[match["unit"]]
    sign = "minus " if match["sign"] else ""
    return f"{sign}{_number(match['amount'])} {one if _is_one(match['amount']) else many}"


def _phone(match: Match) -> str:
    return ", ".join(spelled(part) for part in re.findall(r"\d+", match[0]))


def _range(match: Match) -> str:
    return f"{_number_or_year(match['first'])} to {_number_or_year(match['second'])}"


def _number_or_year(digits: str) -> str:
    is_year = len(digits) == 4 and digits.isdigit() and 1100 <= int(digits) < 2100
    return year(digits) if is_year else _number(digits)


def _decade(match: Match) -> str:
    """1990s, '90s."""
    digits = match["digits"]
    words = (year(digits) if len(digits) == 4 else cardinal(digits)).split()
    last = words[-1]
    words[-1] = f"{last[:-1]}ies" if last.endswith("y") else f"{last}s"
    return " ".join(words)


def _fraction(match: Match) -> str:
    top, bottom = int(match["top"]), int(match["bottom"])
    if bottom in (2, 4):
        name = {2: ("half", "halves"), 4: ("quarter", "quarters")}[bottom][top != 1]
    else:
        name = ordinal(str(bottom)) + ("s" if top != 1 else "")
    return f"{cardinal(str(top))} {name}"


def _plain_number(match: Match) -> str:
    text = match["number"]
    sign = "minus " if match["sign"] else ""
    if "." not in text and "," not in text:
        if len(text) > 1 and text[0] == "0":
            return sign + spelled(text)
        if not sign:
            return _number_or_year(text)
    return sign + _number(text)


def _letters_and_digits(match: Match) -> str:
    """`B2B`, `GPT4`, `H264`: letters and numbers, each said for itself."""
    pieces = re.findall(r"[A-Za-z]+|\d+", match[0])
    said = []
    for piece in pieces:
        if piece.isdigit():
            said.append(spelled(piece) if piece[0] == "0" and len(piece) > 1 else cardinal(piece))
        else:
            said.append(" ".join(piece) if len(piece) == 1 or not re.search(r"[aeiouyAEIOUY]", piece) else piece)
    return " ".join(said)


def _units_pattern() -> str:
    return "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True))


def _abbreviation(match: Match) -> str:
    return _ABBREVIATIONS[match[0]]


def _abbreviations_pattern() -> str:
    entries = []
    for text in sorted(_ABBREVIATIONS, key=len, reverse=True):
        after = r"(?=\s*\d)" if text in _BEFORE_NUMBERS else r"(?!\w)"
        entries.append(re.escape(text) + after)
    return r"(?<!\w)(?:" + "|".join(entries) + ")"


_MONTH_DAY_YEAR = r"(?:,?\s+(?P<year>\d{4})\b)?"
_WEB = (
    r"https?://[^\s<>\"')\]]*[\w/]|www\.[\w.-]+\w(?:/[\w./-]*\w)?"
    rf"|\b[\w-]+(?:\.[\w-]+)*\.(?:{_TOP_DOMAINS})\b(?:/[\w./-]*\w)?"
)
_HALF_DAY = r"[ap]\.m\.|[AP]\.M\.|[ap]m\b|[AP]M\b"
_MAGNITUDE = r"million|billion|trillion|thousand|[kK]\b|[mM]\b|[bB]n?\b|tn\b"

_RULES: list[tuple[re.Pattern[str], Callable[[Match], str]]] = [
    (re.compile(pattern), say)
    for pattern, say in (
        (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _address),
        (_WEB, _address),
        (r"\b(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})\b", _plain_date),
        (r"\b(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})\b", _slash_date),
        (rf"\b(?P<month>{_MONTH})\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b{_MONTH_DAY_YEAR}(?!:)", _month_first),
        (
            rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})(?!\w){_MONTH_DAY_YEAR}",
            _day_first,
        ),
        (
            r"\b(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d)?\b" rf"(?:\s?(?P<half>{_HALF_DAY}))?",
            _time,
        ),
        (rf"\b(?P<hour>1[0-2]|[1-9])(?P<minute>)\s?(?P<half>{_HALF_DAY})", _time),
        (rf"(?P<currency>[$£€¥₹])\s?(?P<amount>{_NUMBER})(?:\s?(?P<magnitude>{_MAGNITUDE}))?", _money),
        (r"(?<!\w)(?:\+\d{1,3}[ -])?\(?\d{3}\)?[ -]\d{3}[ -]\d{4}\b", _phone),
        (r"\b(?P<digits>\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", lambda m: ordinal(m["digits"].replace(",", ""))),
        (r"\b(?P<digits>\d{4}|\d0)s\b", _decade),
        (r"[’'](?P<digits>\d0)s\b", _decade),
        (rf"\b(?P<first>{_NUMBER})\s?[–—-]\s?(?P<second>{_NUMBER})\b(?![-/]\d)", _range),
        (
            rf"(?<![\w.])(?P<sign>[-−](?=\d))?(?P<amount>{_NUMBER})[ -]?(?P<unit>{_units_pattern()})(?![\w/])",
            _unit,
        ),
        (r"\b(?P<top>\d{1,2})/(?P<bottom>[2-9]|1\d|[2-9]0)\b(?!/)", _fraction),
        (r"\bv?\d+(?:\.\d+){2,}\b", lambda m: " point ".join(cardinal(n) for n in re.findall(r"\d+", m[0]))),
        (r"\b(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z\d]+\b", _letters_and_digits),
        (rf"(?P<sign>(?<![\w.])[-−](?=\d))?(?P<number>{_NUMBER}|(?<!\w)\.\d+)", _plain_number),
        (_abbreviations_pattern(), _abbreviation),
        (r"\b(?:[A-Za-z]\.){2,}(?:[A-Za-z]\b)?", lambda m: " ".join(m[0].replace(".", "").upper())),
        ("[" + re.escape("".join(_SYMBOLS)) + "]", lambda m: _SYMBOLS[m[0]]),
    )
]


def spoken_forms(text: str) -> Iterator[tuple[int, int, str]]:
    """What is not written as it is said: (start, end, words) in order, without overlaps."""
    upcoming: list[Match | None] = [pattern.search(text) for pattern, _ in _RULES]
    at = 0
    while True:
        best = -1
        for index, (pattern, _) in enumerate(_RULES):
            match = upcoming[index]
            if match is not None and match.start() < at:
                match = upcoming[index] = pattern.search(text, at)
            if match is not None and (best < 0 or match.start() < upcoming[best].start()):  # type: ignore[union-attr]
                best = index
        if best < 0:
            return
        found = upcoming[best]
        assert found is not None
        yield found.start(), found.end(), _RULES[best][1](found)
        at = max(found.end(), at + 1)
