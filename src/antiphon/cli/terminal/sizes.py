"""Numbers of bytes as text."""

from __future__ import annotations


def megabytes(size: float) -> str:
    """Format bytes in decimal megabytes."""
    return f"{size / 1e6:,.1f} MB"


def size_text(size: float) -> str:
    """Format bytes in the largest unit that gives at least 1, as in `912 B` or `1.2 MB`."""
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:,.1f} {unit}"
    return f"{size:,.0f} B"
