"""Optional packages and programs: importing them, and how to install missing ones."""

from __future__ import annotations

import importlib
from typing import Any

from antiphon.errors import MissingDependencyError

#: Packages of each extra in `pyproject.toml`, by pip's names.
EXTRAS = {
    "microphone": ("sounddevice",),
    "otel": ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"),
}
#: Ways to install a program with the usual package managers.
PROGRAMS = {"espeak-ng": "`apt install espeak-ng` (Debian, Ubuntu) or `brew install espeak-ng` (macOS)"}


def install_hint(name: str) -> str:
    """Return how to install a package, an extra's packages or a program; valid for source installations too."""
    if name in PROGRAMS:
        return f"install it with {PROGRAMS[name]}"
    packages = EXTRAS.get(name, (name,))
    return f"install {'it' if len(packages) == 1 else 'them'} with `pip install {' '.join(packages)}`"


def import_dependency(module: str, purpose: str, name: str | None = None) -> Any:
    """Import a module that `purpose` ("encoding MP3") needs, or raise `MissingDependencyError`.

    `name` is the package or extra that provides the module, if its name differs from the module's.
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
