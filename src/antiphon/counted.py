"""Numbers with their nouns, for sentences: "1 request", "2 requests"."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with thousands separators, and the noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
