"""Values of a model's `config.json` or metadata, checked by type; errors name the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from antiphon.errors import CheckpointError

#: Maximum size in a config: real models have smaller sizes, and a larger one means a corrupt or hostile file.
MAX_SIZE = 1 << 28


def checked_size(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_SIZE:
        raise CheckpointError(f"config key {key!r} is {shown(value)}, not a size between 1 and {MAX_SIZE}")
    return value


def size(config: Mapping[str, Any], key: str, default: int) -> int:
    """Return a size, or the default if the key is missing or null."""
    value = config.get(key)
    return default if value is None else checked_size(key, value)


def number(config: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """Return a finite number. With a default, return it for a missing key, null and 0; without one, reject these."""
    value = config.get(key)
    if default is not None and (value is None or (value == 0 and not isinstance(value, bool))):
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(f"config key {key!r} is {shown(value)}, not a number")
    return float(value)


def section(config: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the first non-empty object under these keys, or an empty one."""
    for key in keys:
        value = config.get(key)
        if value is not None and not isinstance(value, Mapping):
            raise CheckpointError(f"config key {key!r} is {shown(value)}, not an object")
        if value:
            return value
    return {}


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"
