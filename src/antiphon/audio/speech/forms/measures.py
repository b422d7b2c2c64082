"""Quantities with their units."""

from __future__ import annotations

import re
from collections.abc import Iterator

from antiphon.audio.speech.forms.fractions import FRACTION_SIGNS, fraction_words
from antiphon.audio.speech.forms.rule import (
    MINUS,
    MINUS_SIGNS,
    NUMBER,
    Match,
    after,
    alternatives,
    before,
    is_one,
    number,
    numeric,
    rule,
)
from antiphon.audio.speech.number_words import cardinal

_PREFIXES = {"": "", "k": "kilo", "M": "mega", "G": "giga", "T": "tera", "m": "milli", "µ": "micro", "μ": "micro",
             "n": "nano", "c": "centi", "p": "pico", "P": "peta", "h": "hecto", "d": "deci"}  # fmt: skip
#: Name by unit, with an "s" in the plural, and the prefixes that it can have.
_METRIC = {
    "m": ("meter", " kcmµμn"), "g": ("gram", " kmµμn"), "L": ("liter", " mcdµμ"), "l": ("liter", " mcdµμ"),
    "s": ("second", " mµμnp"), "W": ("watt", " kMGTm"), "Wh": ("watt hour", " kMGT"), "V": ("volt", " kmMµμ"),
    "A": ("amp", "mkµμ"), "Ah": ("amp hour", "m "), "J": ("joule", "kM"), "Pa": ("pascal", " khM"),
    "mol": ("mole", " mµμ"), "B": ("byte", "kMGTP"), "iB": ("byte", "KMGT"), "b": ("bit", "kMG"),
    "bps": ("bit per second", "kMG"), "bit": ("bit", " kMG"), "cal": ("calorie", "k"), "Ω": ("ohm", " kM"),
    "F": ("farad", "µμnp"), "eV": ("electron volt", " kMG"), "N": ("newton", "k"),
}  # fmt: skip
_BINARY = {"K": "kibi", "M": "mebi", "G": "gibi", "T": "tebi"}
_POWERS = {"²": "square", "2": "square", "³": "cubic", "3": "cubic"}


def _plural(name: str) -> str:
    """Return the plural: `bit per second` → bits per second."""
    head, per, tail = name.partition(" per ")
    return f"{head}s{per}{tail}"


def _metric() -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield units with their prefixes, and the squares and cubes of lengths: (as written, (singular, plural))."""
    for unit, (name, prefixes) in _METRIC.items():
        for letter in prefixes.replace(" ", "_"):
            prefix = _BINARY[letter] if unit == "iB" else _PREFIXES[letter.strip("_")]
            yield letter.strip("_") + unit, (f"{prefix}{name}", _plural(f"{prefix}{name}"))
    for length, name in {"km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter"}.items():
        for power, kind in _POWERS.items():
            yield length + power, (f"{kind} {name}", f"{kind} {name}s")


_UNITS: dict[str, tuple[str, str]] = dict(_metric())
#: Other units: first those with an "s" in the plural, then the rest with both forms.
_REGULAR = {
    "mi": "mile", "yd": "yard", "yds": "yard", "mi²": "square mile", "sq m": "square meter", "sq mi": "square mile",
    "sq km": "square kilometer", "lb": "pound", "lbs": "pound", "oz": "ounce", "fl oz": "fluid ounce", "gal": "gallon",
    "qt": "quart", "tsp": "teaspoon", "tbsp": "tablespoon", "ha": "hectare", "ly": "light year", "mcg": "microgram",
    "min": "minute", "mins": "minute", "sec": "second", "secs": "second", "h": "hour", "hr": "hour", "hrs": "hour",
    "wk": "week", "wks": "week", "yr": "year", "yrs": "year", "mos": "month", "KB": "kilobyte", "Gb": "gigabit",
    "mbps": "megabit per second", "kbps": "kilobit per second", "gbps": "gigabit per second", "mph": "mile per hour",
    "MPH": "mile per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour", "mpg": "mile per gallon",
    "rpm": "revolution per minute", "RPM": "revolution per minute", "fps": "frame per second",
    "bpm": "beat per minute", "ppm": "part per million", "ppb": "part per billion", "dpi": "dot per inch",
    "dB": "decibel", "bar": "bar", "atm": "atmosphere", "KG": "kilogram", "Kg": "kilogram", "KM": "kilometer",
    "CM": "centimeter", "°": "degree", "px": "pixel", "MP": "megapixel",
}  # fmt: skip
_UNITS |= {unit: (name, _plural(name)) for unit, name in _REGULAR.items()}
_UNITS |= {
    "ft": ("foot", "feet"), "ft²": ("square foot", "square feet"), "ft³": ("cubic foot", "cubic feet"),
    "sq ft": ("square foot", "square feet"), "sq. ft": ("square foot", "square feet"),
    "sqft": ("square foot", "square feet"), "cu ft": ("cubic foot", "cubic feet"), "cc": ("C C", "C C"),
    "hp": ("horsepower", "horsepower"), "Hz": ("hertz", "hertz"), "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"), "GHz": ("gigahertz", "gigahertz"), "psi": ("P S I", "P S I"),
    "°C": ("degree Celsius", "degrees Celsius"), "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "%": ("percent", "percent"), "‰": ("per mille", "per mille"),
}  # fmt: skip
_UNITS |= dict.fromkeys(("° C", "ºC", "˚C", "℃"), _UNITS["°C"])
_UNITS |= dict.fromkeys(("° F", "ºF", "˚F", "℉"), _UNITS["°F"])
#: Singular name by unit after a slash: m/s, mg/dL.
_PER_UNITS = {unit: names[0] for unit, names in _UNITS.items()} | {
    "s²": "second squared", "s2": "second squared", "day": "day", "year": "year", "week": "week", "month": "month",
    "hour": "hour", "second": "second", "minute": "minute", "person": "person", "in": "inch",
}  # fmt: skip
_THING = re.compile(r"\s+(?!(?:long|wide|tall|deep|high|thick|by|and|or|to|of|in|on|from|is|was|apart|x)\b)[a-z]")
_NAME_BEFORE = re.compile(r"(?:^|[^\w.-])[A-Za-z][\w.]*-(?:[\w.]+-)*$")  # gemma-3-270m
#: Text after "6 in." that shows that the sentence continues.
_GOES_ON = re.compile(r"\s?[,;:)×/]|\s+(?:[a-z(×]|\d)")
_MEASURED = re.compile(
    r"\b(?:by|width|height|length|depth|diameter|thickness|measur\w+|wide|long|tall|high|deep|thick|ft|feet|foot|inch(?:es)?|"
    r"rain|rainfall|snow|snowfall)\b[^.!?\n]*$|[x×]\s?$",
)
_OPEN_QUOTE = re.compile(r"(?:^|\s)'")
_SUFFIXES = {"N": "north", "S": "south", "E": "east", "W": "west"}

_UNIT = alternatives(_UNITS)
_PER = rf"(?:/(?P<per>{alternatives(_PER_UNITS)}))?"
_FRACTION = rf"\d{{1,2}}/\d{{1,3}}|[{FRACTION_SIGNS}]"


def _unit(match: Match) -> str | None:
    if _NAME_BEFORE.search(before(match)):
        return None
    one, many = _UNITS[match["unit"]]
    amount, fraction, per = match["amount"], match["fraction"], match["per"]
    sign = "minus " if match["sign"] else ""
    tail = f" per {_PER_UNITS[per]}" if per else ""
    if match["join"] == "-":  # a 5-km run
        return f"{sign}{number(amount)} {one}{tail}" if not fraction else None
    if fraction:
        words = fraction_words(fraction, whole=amount)
        return None if words is None else f"{sign}{words} {many if amount else f'of a {one}'}{tail}"
    return f"{sign}{number(amount)} {one if is_one(amount) else many}{tail}"


def _many(match: Match) -> str:
    """Read a large quantity: `100 million kg` → one hundred million kilograms."""
    return f"{number(match['amount'])} {match['magnitude']} {_UNITS[match['unit']][1]}"


def _feet(match: Match) -> str | None:
    """Read `6'` as six feet, unless it ends a quotation."""
    return None if _OPEN_QUOTE.search(before(match)) else _counted(match["feet"], "foot", "feet")


def _height(match: Match) -> str:
    """Read a height: `5'10"` → five foot ten."""
    return f"{cardinal(match['feet'])} foot {number(match['inches'])}"


def _inches(match: Match) -> str | None:
    """Read `12"` as inches, unless it ends a quotation."""
    if match.string[max(0, match.start() - 500) : match.start()].count('"') % 2 and match["sign"] == '"':
        return None
    is_one_thing = is_one(match["amount"]) or _THING.match(after(match))  # a 12" disk
    return f"{number(match['amount'])} {'inch' if is_one_thing else 'inches'}"


def _dotted_inches(match: Match) -> str | None:
    """Read `6 in.` as inches if the sentence continues, or measures something."""
    amount, fraction, right = match["amount"], match["fraction"], after(match)
    goes_on = _GOES_ON.match(right) is not None
    if not (goes_on or match["join"] == "-" or fraction or "." in (amount or "") or _MEASURED.search(before(match))):
        return None
    many = "inch" if match["join"] == "-" or is_one(amount or "0") else "inches"
    if fraction:
        words = fraction_words(fraction, whole=amount or "")
        return None if words is None else f"{words} {many if amount else 'of an inch'}"
    return f"{number(amount)} {many}"


def _position(match: Match) -> str:
    """Read geographic coordinates: `33.9°S` → thirty three point nine degrees south."""
    words = [f"{number(match['degrees'])} degrees"]
    if match["minutes"]:
        words.append(f"{number(match['minutes'])} minutes")
    if match["seconds"]:
        words.append(f"{number(match['seconds'])} seconds")
    return " ".join([*words, *([_SUFFIXES[match["side"]]] if match["side"] else [])])


def _feet_and_inches(match: Match) -> str:
    return f"{_counted(match['feet'], 'foot', 'feet')} {_counted(match['inches'], 'inch', 'inches')}"


def _counted(amount: str, one: str, many: str) -> str:
    return f"{number(amount)} {one if is_one(amount) else many}"


_SIGN = rf"(?<![\w.])(?P<sign>{MINUS}(?=\d))?"
_FRACTION_AFTER = rf"(?:\s?(?P<fraction>[{FRACTION_SIGNS}]|(?<=\s)\d{{1,2}}/\d{{1,3}}))?"
_MAGNITUDE = "(?P<magnitude>hundred|thousand|million|billion|trillion)"
RULES = [
    numeric(
        rf"(?<![\w.])(?P<amount>{NUMBER}){_FRACTION_AFTER}(?P<join>[ -]?)in\.(?!\w)",
        _dotted_inches,
        "i",
    ),
    numeric(
        rf"(?<![\w./])(?P<amount>)(?P<fraction>{_FRACTION})(?P<join>[ -]?)in\.(?!\w)",
        _dotted_inches,
        "/" + FRACTION_SIGNS,
        FRACTION_SIGNS,
    ),
    numeric(rf"\b(?P<feet>\d{{1,2}})\s?ft\.?\s?(?P<inches>{NUMBER})\s?in\b\.?", _feet_and_inches, "f"),
    numeric(r"(?<![\w.])(?P<feet>\d{1,2})['′]\s?(?P<inches>\d{1,2}(?:\.\d)?)(?:[\"”″]|''|(?![\w'.]))", _height, "'′"),
    numeric(r"(?<![\w.'])(?P<feet>\d{1,3})(?:′|'(?=[\s.,;!?)]|$))", _feet, "'′"),
    numeric(rf"(?<![^\s(])(?P<amount>{NUMBER})(?P<sign>[\"″])(?!\w)", _inches, '"″'),
    numeric(
        r"(?<![\w.])(?P<degrees>\d{1,3}(?:\.\d{1,8})?)°\s?(?P<minutes>\d{1,2}(?:\.\d{1,5})?)['′]\s?"
        r"(?:(?P<seconds>\d{1,2}(?:\.\d{1,5})?)(?:[\"″]|''))?\s?(?P<side>[NSEW]\b)?",
        _position,
        "°",
    ),
    numeric(
        r"(?<![\w.])(?P<degrees>\d{1,3}(?:\.\d{1,8})?)°\s?(?P<minutes>)(?P<seconds>)(?P<side>[NSEW]\b)", _position, "°"
    ),
    numeric(
        rf"(?:{_SIGN}|(?<=\dx))(?P<amount>{NUMBER}){_FRACTION_AFTER}(?P<join>[ -]?)(?P<unit>{_UNIT}){_PER}"
        r"(?![\w/²³]|\.\w|-\d)(?:\.(?=\s+[a-z]))?",
        _unit,
        starts=MINUS_SIGNS,
    ),
    numeric(
        rf"(?P<sign>)(?<![\w./])(?P<amount>)(?P<fraction>{_FRACTION})(?P<join> ?)(?P<unit>{_UNIT}){_PER}(?![\w/])",
        _unit,
        "/" + FRACTION_SIGNS,
        FRACTION_SIGNS,
    ),
    numeric(rf"(?<![\w.])(?P<amount>{NUMBER}) {_MAGNITUDE} (?P<unit>{_UNIT})(?![\w/])", _many, "n"),
    rule(r"\b(?P<unit>(?:km|cm|mm|m|ft|mi)[²³])(?!\w)", lambda m: _UNITS[m["unit"]][1], "kcmf", "²³"),
]
