"""Loaded models for tests of the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.runtime.loading.loading import LoadedModel, load_model


@pytest.fixture(scope="session")
def tiny_loaded(tiny_llama: Path) -> LoadedModel:
    return load_model(str(tiny_llama))
