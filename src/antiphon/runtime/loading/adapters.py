"""Loading of an adapter for a loaded model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from antiphon.errors import UnsupportedError
from antiphon.models.base.adapters import ModelAdapter, fit_adapter
from antiphon.models.base.model import Task
from antiphon.models.registry import model_class
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.weights.adapters.open import open_adapter


@dataclass(frozen=True)
class LoadedAdapter:
    """Adapter that fits its model. `name` is `base:adapter`."""

    name: str
    base: str
    fitted: ModelAdapter
    seconds: float

    @property
    def nbytes(self) -> int:
        return self.fitted.nbytes


def load_adapter(base: LoadedModel, path: Path, name: str) -> LoadedAdapter:
    """Read an adapter and fit it to a model. Every failure is an `AntiphonError` that names the file and the cause."""
    started = time.perf_counter()
    if base.model.task is not Task.GENERATE:
        raise UnsupportedError(f"{base.name} is for {base.model.task}; adapters are for models that generate text")
    file = open_adapter(path.expanduser())
    if file.architecture is not None and model_class(file.architecture) is not type(base.model):
        own = type(base.model).__name__.lower()
        raise UnsupportedError(f"{path} is an adapter of a {file.architecture} model; {base.name!r} is a {own}")
    fitted = fit_adapter(base.model, base.name, file)
    if not base.device.is_cpu:
        fitted = fitted.on(base.device.torch)
    return LoadedAdapter(name, base.name, fitted, time.perf_counter() - started)
