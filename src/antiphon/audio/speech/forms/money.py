"""Amounts of money."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.rule import (
    DASH,
    DIGITS,
    MINUS,
    MINUS_SIGNS,
    NUMBER,
    Match,
    alternatives,
    initials,
    is_one,
    number,
    numeric,
    rule,
)
from antiphon.audio.speech.number_words import cardinal

#: Names by sign: singular and plural of the currency, and of its hundredth.
_SIGNS = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopeck", "kopecks"),
    "₺": ("lira", "lira", "", ""),
    "₪": ("shekel", "shekels", "", ""),
    "₿": ("bitcoin", "bitcoins", "", ""),
    "₫": ("dong", "dong", "", ""),
    "₦": ("naira", "naira", "", ""),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "₴": ("hryvnia", "hryvnias", "", ""),
    "฿": ("baht", "baht", "", ""),
}
_NATIONS = {
    "US": "US", "C": "Canadian", "CA": "Canadian", "A": "Australian", "AU": "Australian", "NZ": "New Zealand",
    "HK": "Hong Kong", "S": "Singapore", "NT": "Taiwan",
}  # fmt: skip
_DOLLARS = {
    f"{prefix}$": (f"{nation} dollar", f"{nation} dollars", "cent", "cents") for prefix, nation in _NATIONS.items()
}
_CODES = {
    "USD": _DOLLARS["US$"], "CAD": _DOLLARS["C$"], "AUD": _DOLLARS["A$"], "NZD": _DOLLARS["NZ$"], "EUR": _SIGNS["€"],
    "GBP": _SIGNS["£"], "JPY": _SIGNS["¥"], "INR": _SIGNS["₹"], "KRW": _SIGNS["₩"], "RUB": _SIGNS["₽"],
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"), "CNY": ("yuan", "yuan", "", ""),
    "RMB": ("yuan", "yuan", "", ""), "SEK": ("Swedish krona", "Swedish kronor", "", ""),
    "NOK": ("Norwegian krone", "Norwegian kroner", "", ""), "DKK": ("Danish krone", "Danish kroner", "", ""),
    "PLN": ("zloty", "zlotys", "", ""), "BTC": _SIGNS["₿"],
}  # fmt: skip
_OTHERS = {
    "R$": ("real", "reais", "centavo", "centavos"), "Rs.": _SIGNS["₹"], "Rs": _SIGNS["₹"], "zł": _CODES["PLN"],
}  # fmt: skip
_CURRENCIES = _SIGNS | _DOLLARS | _CODES | _OTHERS
#: Currencies in which a dot before three digits separates thousands.
_DOTTED = ("€", "EUR", "R$", "zł", "₺")
MAGNITUDES = {
    "k": "thousand", "m": "million", "mm": "million", "mn": "million", "mln": "million", "b": "billion",
    "bn": "billion", "t": "trillion", "tn": "trillion",
}  # fmt: skip
_MAGNITUDE = r"(?:hundred|thousand|million|billion|trillion|mln|mn|MM|bn|tn|[kKmMbBT]|Bn|BN|Mn|MN)(?!\w)"
#: Unit of a price by its abbreviation.
_PER = {
    "mo": "month", "month": "month", "yr": "year", "y": "year", "year": "year", "wk": "week", "week": "week",
    "d": "day", "day": "day", "hr": "hour", "h": "hour", "hour": "hour", "min": "minute", "kg": "kilogram",
    "lb": "pound", "oz": "ounce", "g": "gram", "gal": "gallon", "L": "liter", "l": "liter", "ea": "each",
    "GB": "gigabyte", "TB": "terabyte", "MB": "megabyte", "kWh": "kilowatt hour", "MWh": "megawatt hour",
    "mi": "mile", "km": "kilometer", "sqft": "square foot", "person": "person", "user": "user", "night": "night",
    "unit": "unit", "share": "share", "seat": "seat", "piece": "piece", "barrel": "barrel", "bbl": "barrel",
}  # fmt: skip
_PER_UNIT = rf"(?:/(?P<per>{alternatives(_PER)})(?![\w/]))?"
#: Amount in American, European (1.000,50) or Indian notation (1,00,000).
_AMOUNT = (
    r"\d{1,3}(?:[.']\d{3}){1,6},\d{1,2}(?!\d)|\d{1,3}(?:\.\d{3}){2,6}(?![.\d])|\d{1,3}(?:'\d{3}){1,6}(?:\.\d\d)?(?!\d)"
    rf"|\d{{1,9}},\d{{2}}(?!\d|,\d)|\d{{1,2}}(?:,\d{{2}}){{1,5}},\d{{3}}(?!\d)|{NUMBER}|\.\d{{1,6}}"
)


def _plain(amount: str, currency: str) -> str:
    """Return the amount with a dot before its decimals and no other sign."""
    amount = amount.replace("'", "")
    whole, comma, decimals = amount.rpartition(",")
    if comma and 1 <= len(decimals) <= 2:
        return f"{re.sub('[.,]', '', whole)}.{decimals}"
    is_grouped = amount.count(".") > 1 or (currency in _DOTTED and re.fullmatch(r"\d{1,3}\.\d{3}", amount))
    return amount.replace(".", "") if is_grouped else amount.replace(",", "")


def _said(amount: str, currency: str, magnitude: str | None) -> str:
    currency = currency.strip()
    one, many, cent, cents = _CURRENCIES[currency]
    amount = _plain(amount, currency)
    if magnitude:
        return f"{number(amount)} {MAGNITUDES.get(magnitude.lower(), magnitude.lower())} {many}"
    whole, _, fraction = amount.partition(".")
    while len(fraction) > 2 and fraction.endswith("0"):
        fraction = fraction[:-1]
    if not fraction or not fraction.strip("0"):
        return f"{cardinal(whole or '0')} {one if is_one(whole) else many}"
    if len(fraction) > 2 or not cent:
        return f"{number(f'{whole}.{fraction}')} {many}"
    hundredths = int(fraction.ljust(2, "0"))
    parts = [f"{cardinal(whole)} {one if int(whole) == 1 else many}"] if whole.strip("0") else []
    parts.append(f"{cardinal(str(hundredths))} {cent if hundredths == 1 else cents}")
    return " and ".join(parts)


def _money(match: Match) -> str:
    sign = "minus " if match["sign"] or match["inner"] else ""
    per = match["per"]
    tail = "" if not per else " each" if per == "ea" else f" per {_PER[per]}"
    return sign + _said(match["amount"], match["currency"], match["magnitude"]) + tail


def _range(match: Match) -> str:
    """Read a range of amounts: `$50-100` → fifty to one hundred dollars."""
    first = number(_plain(match["first"], match["currency"]))
    return f"{first} to {_said(match['amount'], match['currency'], match['magnitude'])}"


def _coins(match: Match) -> str:
    """Read an amount in coins: `50¢` → fifty cents."""
    one, many = ("cent", "cents") if match["coin"] == "¢" else ("penny", "pence")
    return f"{number(match['amount'])} {one if is_one(match['amount']) else many}"


_SIGN = rf"(?P<sign>(?<![\w.]){MINUS})?"
_BEFORE = (
    rf"(?P<currency>(?<![A-Za-z])(?:{alternatives(_DOLLARS)}|R\$|Rs\.?\s?(?=\d)|(?:{alternatives(_CODES)})\s?(?=[\d.-]))"
    rf"|[{''.join(_SIGNS)}])"
)
_AFTER = rf"(?P<currency>[{''.join(_SIGNS)}](?![\d.])|(?:{alternatives(_CODES)}|zł)(?!\w))"
_STARTS = "".join(_SIGNS) + initials(_DOLLARS | _CODES | _OTHERS) + MINUS_SIGNS
_LARGE = rf"(?:\s?(?P<magnitude>{_MAGNITUDE}))?"
RULES = [
    rule(
        rf"{_BEFORE}\s?(?P<first>{_AMOUNT})\s?{DASH}\s?(?P<amount>{_AMOUNT})(?![-/\d]){_LARGE}", _range, _STARTS, DIGITS
    ),
    rule(
        rf"{_SIGN}{_BEFORE}\s?(?P<inner>{MINUS}(?=[\d.]))?(?P<amount>{_AMOUNT}){_LARGE}{_PER_UNIT}",
        _money,
        _STARTS,
        DIGITS,
    ),
    numeric(
        rf"{_SIGN}(?<![\w.,])(?P<amount>{_AMOUNT}){_LARGE}\s?{_AFTER}(?P<inner>){_PER_UNIT}",
        _money,
        "".join(_SIGNS) + "DBRYFKNł",  # at least one character of each code
        MINUS_SIGNS,
    ),
    numeric(rf"(?<![\w.])(?P<amount>{NUMBER})\s?(?P<coin>¢)", _coins, "¢"),
    numeric(r"(?<![\w.,])(?P<amount>[1-9]\d?)(?P<coin>p)(?!\w)", _coins, "p"),
]
