"""The compiled extension, and the instruction sets that it can use on this machine."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

_extension: ModuleType | None
try:
    _extension = import_module("antiphon.ops._native")
except ImportError:  # installed without a compiler
    _extension = None


def available() -> bool:
    """Return whether the extension was built for this installation."""
    return _extension is not None


@cache
def extension() -> ModuleType:
    """Return the extension; `available()` must hold."""
    assert _extension is not None
    return _extension


def variants() -> list[str]:
    """Return the instruction sets whose kernels this processor can run, best first; empty without the extension."""
    return _extension.variants() if _extension is not None else []
