"""The arguments of a call as an object, for APIs that return objects."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json


def arguments_object(text: str) -> dict[str, Any]:
    """Parse JSON arguments, also if a token limit cut them off; return {} for anything but an object."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
