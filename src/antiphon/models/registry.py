"""Lookup of the class for an architecture. The files of this folder declare theirs, so a new one is one new file."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import antiphon.models
from antiphon.errors import UnsupportedError
from antiphon.models.base.model import Model
from antiphon.weights.checkpoint import Checkpoint


def model_class(architecture: str) -> type[Model]:
    """Find the class whose `architectures` contain this name, or raise `UnsupportedError` with all known names."""
    stem = architecture.replace("-", "_")
    # Try the file of the same name first, which usually avoids importing the others.
    for file in sorted(_files(), key=lambda file: not stem.startswith(file)):
        for cls in _models(file):
            if architecture in cls.architectures:
                return cls
    raise UnsupportedError(f"architecture {architecture!r} is not supported; known: {', '.join(architectures())}")


def architectures() -> dict[str, type[Model]]:
    """Return the class of every architecture by name; imports all models."""
    return {name: cls for file in _files() for cls in _models(file) for name in cls.architectures}


def build_model(checkpoint: Checkpoint) -> Model:
    """Build the model of a checkpoint; errors name tensors that are missing or have a wrong shape."""
    return model_class(checkpoint.architecture).from_checkpoint(checkpoint)


def _files() -> dict[str, str]:
    """Return the module of each file or folder of models; a folder's model is in its `model.py`."""
    found = pkgutil.iter_modules(antiphon.models.__path__)
    return {
        name: f"antiphon.models.{name}.model" if is_folder else f"antiphon.models.{name}"
        for _, name, is_folder in found
        if name != "registry"
    }


def _models(file: str) -> Iterator[type[Model]]:
    """Yield the classes of a file that declare `architectures` themselves instead of inheriting them."""
    for value in vars(import_module(_files()[file])).values():
        if isinstance(value, type) and issubclass(value, Model) and "architectures" in vars(value):
            yield value
