"""Keep-alive times of idle models: seconds, or a text such as `30s`, `5m`, `1h`; negative is for ever."""

from __future__ import annotations

import math
import re

from antiphon.errors import InvalidRequestError

FOREVER = math.inf
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
PATTERN = r"^-?[0-9]{1,9}(\.[0-9]{1,6})?(ms|s|m|h)?$"


def parse_keep_alive(value: float | str) -> float:
    """Return the seconds: 0 unloads at once, `FOREVER` never."""
    if isinstance(value, str):
        match = re.fullmatch(PATTERN, value.strip())
        if match is None:
            raise InvalidRequestError(f"keep_alive is {value[:40]!r}; it is seconds, or like 30s, 5m or 1h, or -1")
        unit = match[2] or ""
        seconds = float(value.strip().removesuffix(unit)) * UNITS[unit]
    else:
        seconds = float(value)
    if math.isnan(seconds):
        raise InvalidRequestError("keep_alive is not a number")
    return FOREVER if seconds < 0 else seconds


def keep_alive_text(seconds: float) -> float:
    """Return the seconds, or -1 for `FOREVER`, as the API reports them."""
    return -1 if seconds == FOREVER else seconds
