"""Backends that implement an operation."""

from __future__ import annotations

from antiphon.ops.backend import Operation
from antiphon.ops.registry import available_backends, get_backend


def implemented_by(declared: Operation) -> list[str]:
    """Return the available backends with their own implementation; the reference always has one."""
    names = available_backends()
    return [name for name in names if name == "reference" or get_backend(name).implementation(declared.name)]
