"""Durations as text."""

from __future__ import annotations


def clock_text(seconds: float) -> str:
    """Format seconds as a clock does, as in `1:05` or `2:00:31`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
