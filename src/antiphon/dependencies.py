"""Packages and programs that a feature needs: importing them, and saying how to install one that is missing."""

from __future__ import annotations

import importlib
from typing import Any

from antiphon.errors import MissingDependencyError

#: What pip calls the packages of each extra in `pyproject.toml`.
EXTRAS = {
    "microphone": ("sounddevice",),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
}
#: How to install a program with the usual package managers.
PROGRAMS = {"espeak-ng": "`apt install espeak-ng` (Debian, Ubuntu) or `brew install espeak-ng` (macOS)"}


def install_hint(name: str) -> str:
    """How to install a package, the packages of an extra, or a program. It works for an installation from source."""
    if name in PROGRAMS:
        return f"install it with {PROGRAMS[name]}"
    packages = EXTRAS.get(name, (name,))
    return f"install {'it' if len(packages) == 1 else 'them'} with `pip install {' '.join(packages)}`"


def import_dependency(module: str, purpose: str, name: str | None = None) -> Any:
    """The module; a `MissingDependencyError` if it cannot be imported. `purpose` is what needs it ("encoding MP3").

    `name` is the package or extra that has the module, where it is not called the same.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = name or module
        needed = " and ".join(EXTRAS.get(name, (name,)))
        raise MissingDependencyError(
            f"{purpose} needs {needed}, which cannot be imported on this machine ({error}); {install_hint(name)}"
        ) from error


def missing_program(purpose: str, program: str) -> MissingDependencyError:
    return MissingDependencyError(
        f"{purpose} needs the program {program}, which is not installed on this machine; {install_hint(program)}"
    )
