"""Recorded programs on the CPU: recordings emitted as programs of the extension, and their runs."""

from __future__ import annotations

from antiphon.ops.native.program.emit import check
from antiphon.ops.native.program.program import Program

__all__ = ["Program", "check"]
