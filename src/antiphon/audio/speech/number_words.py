"""Numbers as English words: cardinals, ordinals, years, decimals, digit by digit."""

from __future__ import annotations

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ["thousand", "million", "billion", "trillion", "quadrillion", "quintillion"]
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}

#: Maximum digits of a number in words; longer ones are read digit by digit.
MAX_DIGITS = 3 * (len(_SCALES) + 1)


def cardinal(digits: str) -> str:
    """Return a number in words: `1250` → one thousand two hundred fifty."""
    digits = digits.lstrip("0") or "0"
    if len(digits) > MAX_DIGITS:
        return spelled(digits)
    groups = []
    value, scale = int(digits), 0
    while value:
        value, rest = divmod(value, 1000)
        if rest:
            groups.append(_below_thousand(rest) + (f" {_SCALES[scale - 1]}" if scale else ""))
        scale += 1
    return " ".join(reversed(groups)) or _ONES[0]


def ordinal(digits: str) -> str:
    """Return an ordinal in words: `21` → twenty first."""
    words = cardinal(digits).split()
    last = words[-1]
    if last in _ORDINALS:
        words[-1] = _ORDINALS[last]
    else:
        words[-1] = f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th"
    return " ".join(words)


def year(digits: str) -> str:
    """Return a year in words: `1984` → nineteen eighty four, `2005` → two thousand five."""
    if len(digits) != 4 or digits[0] == "0":
        return cardinal(digits)
    first, last = int(digits[:2]), int(digits[2:])
    if first % 10 == 0 and last < 10:
        return cardinal(digits)
    if not last:
        return f"{cardinal(digits[:2])} hundred"
    tail = f"oh {_ONES[last]}" if last < 10 else cardinal(digits[2:])
    return f"{cardinal(digits[:2])} {tail}"


def decimal(digits: str) -> str:
    """Return a decimal in words: `3.14` → three point one four."""
    whole, _, fraction = digits.partition(".")
    words = cardinal(whole) if whole else ""
    return f"{words} point {spelled(fraction)}".strip() if fraction else words


def spelled(digits: str) -> str:
    """Return each digit as a word: `007` → zero zero seven."""
    return " ".join(_ONES[int(digit)] for digit in digits)


def _below_thousand(value: int) -> str:
    hundreds, rest = divmod(value, 100)
    words = [f"{_ONES[hundreds]} hundred"] if hundreds else []
    if rest:
        words.append(_below_hundred(rest))
    return " ".join(words)


def _below_hundred(value: int) -> str:
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens] + (f" {_ONES[ones]}" if ones else "")
