"""Recorded forward passes: a model's operations, taken down once, that C++ runs in one call."""

from __future__ import annotations

from antiphon.ops.program.program import Program
from antiphon.ops.program.recording import InputSpec, Recording, record

__all__ = ["InputSpec", "Program", "Recording", "record"]
