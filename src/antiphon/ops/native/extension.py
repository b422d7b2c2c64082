"""The compiled extension, and what it may use of this machine."""

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
    """Whether the extension was built for this installation."""
    return _extension is not None


@cache
def extension() -> ModuleType:
    """The extension; `available()` must hold."""
    assert _extension is not None
    return _extension


def variants() -> list[str]:
    """The instruction sets whose kernels this processor can run, the best first; empty without the extension."""
    return _extension.variants() if _extension is not None else []
