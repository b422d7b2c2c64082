"""Values of a model's `config.json` or metadata, checked by type, with errors that name the key."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from antiphon.errors import CheckpointError

#: No size in a real model's config is larger; a larger one is a corrupt or hostile file.
MAX_SIZE = 1 << 28


def checked_size(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_SIZE:
        raise CheckpointError(f"config key {key!r} is {shown(value)}, not a size between 1 and {MAX_SIZE}")
    return value


def size(config: Mapping[str, Any], key: str, default: int) -> int:
    """A size that may be missing or null."""
    value = config.get(key)
    return default if value is None else checked_size(key, value)


def number(config: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """A finite number. Without a default it must be there; null and 0 mean the default where there is one."""
    value = config.get(key)
    if default is not None and (value is None or (value == 0 and not isinstance(value, bool))):
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise CheckpointError(f"config key {key!r} is {shown(value)}, not a number")
    return float(value)


def section(config: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """The first object under these keys; an empty one if all are missing."""
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
