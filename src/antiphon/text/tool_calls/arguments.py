"""The arguments of a call as an object, for the APIs that give them so."""

from __future__ import annotations

from typing import Any

from pydantic_core import from_json


def arguments_object(text: str) -> dict[str, Any]:
    """Arguments that a limit cut are completed to an object of what is there."""
    try:
        value = from_json(text or "{}", allow_partial=True)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
