"""Times of day and durations."""

from __future__ import annotations

import re

from antiphon.audio.speech.forms.dates import spoken_minute
from antiphon.audio.speech.forms.rule import Match, before, numeric
from antiphon.audio.speech.number_words import cardinal, spelled

#: Forms of am and pm; "am" after a space and before "I" is the verb.
HALF_DAY = r"(?:[ap]\.m\.?|[AP]\.M\.?|[ap]m|[AP]M)(?![\w'])(?! I\b)"
_HOUR = r"(?P<hour>[01]?\d|2[0-3])"


_DURATION_CUE = re.compile(
    r"\b(?:took|takes|take|taking|last(?:s|ed|ing)?|in|of|for|after|within|under|over|ran|runs|run|ran for|duration|"
    r"elapsed|length|runtime|lap|record|finish(?:ed|es)?|remaining|another|plus|about)[:\s]\s?$",
    re.IGNORECASE,
)
_TIME_CUE = re.compile(r"\b(?:at|since|until|till|before|by|from|to|around|time|is)[:\s]\s?$", re.IGNORECASE)


def _half(text: str) -> str:
    return f"{text[0].upper()} M"


def _time(match: Match) -> str:
    hour, minute, half = match["hour"], match["minute"], match["half"]
    if half:
        words = cardinal(hour) if minute in ("", "00") else f"{cardinal(hour)} {spoken_minute(minute)}"
        return f"{words} {_half(half)}"
    if minute != "00":
        return f"{cardinal(hour)} {spoken_minute(minute)}"
    if int(hour) == 0:
        return "midnight" if len(hour) == 2 else "zero"
    return f"{cardinal(hour)} hundred" if int(hour) > 12 else f"{cardinal(hour)} o'clock"


def _with_seconds(match: Match) -> str:
    """Read `14:10:30` as a time of day, or as a duration if the words before it or a one-digit hour indicate one."""
    hour, minute, second, left = match["hour"], match["minute"], match["second"], before(match)
    seconds = "" if second == "00" else f" and {_counted(second, 'second')}"
    if match["half"]:
        words = cardinal(hour) if minute == "00" else f"{cardinal(hour)} {spoken_minute(minute)}"
        return f"{words}{seconds} {_half(match['half'])}"
    if not _DURATION_CUE.search(left) and (len(hour) == 2 or _TIME_CUE.search(left)):
        return _time(match) + seconds
    return f"{_counted(hour, 'hour')} {_counted(minute, 'minute')} and {_counted(second, 'second')}"


def _counted(digits: str, unit: str) -> str:
    return f"{cardinal(digits)} {unit}" + ("" if int(digits) == 1 else "s")


def _lap(match: Match) -> str:
    """Read a lap time: `1:23.45` → one twenty three point four five."""
    return f"{cardinal(match['minute'])} {spoken_minute(match['second'])} point {spelled(match['part'])}"


def _military(match: Match) -> str:
    """Read a military time: `0800 hours` → oh eight hundred hours."""
    hour, minute = match["hour"], match["minute"]
    words = f"oh {cardinal(hour)}" if hour[0] == "0" else cardinal(hour)
    return f"{words} " + ("hundred" if minute == "00" else spoken_minute(minute)) + " hours"


RULES = [
    numeric(
        rf"\b{_HOUR}:(?P<minute>[0-5]\d):(?P<second>[0-5]\d)(?![\d:])(?:\s?(?P<half>{HALF_DAY}))?", _with_seconds, ":"
    ),
    numeric(r"\b(?P<minute>\d{1,2}):(?P<second>[0-5]\d)\.(?P<part>\d{1,3})\b", _lap, ":"),
    numeric(rf"\b{_HOUR}[:.](?P<minute>[0-5]\d)\s?(?P<half>{HALF_DAY})", _time, "mM"),
    numeric(rf"\b{_HOUR}:(?P<minute>[0-5]\d)(?!\d|:\d)(?P<half>)", _time, ":"),
    numeric(rf"(?<![\w.,:])(?P<hour>1[0-2]|0?[1-9])(?P<minute>)\s?(?P<half>{HALF_DAY})", _time, "mM"),
    numeric(r"\b(?P<hour>[01]\d|2[0-3])(?P<minute>[0-5]\d)\s?(?:hours|hrs)\b", _military, "h"),
]
