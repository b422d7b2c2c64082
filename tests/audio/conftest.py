"""Fixtures of this folder."""

from __future__ import annotations

from support.soak.lengths import soak

__all__ = ["soak"]
