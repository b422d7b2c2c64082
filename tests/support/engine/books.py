"""`Books`: an engine client without an engine, for tests of which models are loaded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.errors import AntiphonError, ModelNotFoundError
from antiphon.runtime.loading.model_text import ModelText
from antiphon.runtime.process.client import EngineState
from antiphon.runtime.process.device_book import DeviceBook
from antiphon.runtime.process.messages import Loaded
from antiphon.runtime.residency import residency as residency_module
from antiphon.weights.catalog.resolve import ResolvedModel


class Books:
    """Engine client that only tracks the names and sizes of loaded models."""

    kv_bytes = 1000

    def __init__(self) -> None:
        self.state = EngineState.READY
        self.on_lost: Callable[[str, AntiphonError], None] | None = None
        self.models: dict[str, Loaded] = {}
        self.sizes: dict[str, int] = {}
        self.history: list[str] = []
        self.delay = 0.0
        self.devices = DeviceBook()
        #: Names of models that never finish loading.
        self.stuck: set[str] = set()
        self.cancelled: list[str] = []
        self.error: Exception | None = None

    async def load(self, name: str, reference: str, base: str = "", device: str | None = None) -> Loaded:
        await asyncio.sleep(self.delay)
        if name in self.stuck:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        assert name not in self.models
        self.sizes.setdefault(name, int(reference.partition(":")[2]))
        self.models[name] = Loaded(name, "generate", 64, self.sizes[name], {}, device=self.devices.name_of(device))
        self.history.append(f"+{name}")
        return self.models[name]

    def cancel_load(self, name: str) -> None:
        if name in self.stuck:
            self.cancelled.append(name)

    async def wait_for_change(self) -> None:
        await asyncio.sleep(0)

    async def unload(self, name: str) -> None:
        if name not in self.models:
            raise ModelNotFoundError(name)
        await asyncio.sleep(self.delay)
        del self.models[name]
        self.history.append(f"-{name}")


def empty_books(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Books:
    """Return a client under which a model named NAME:SIZE has a weight file of SIZE bytes."""

    async def fetch(reference: str, offline: bool, report: Callable[..., None]) -> ResolvedModel:
        path = folder / f"{reference}.gguf"
        path.write_bytes(bytes(int(reference.partition(":")[2])))
        return ResolvedModel(reference, "gguf", path, {path.name: path}, None)

    monkeypatch.setattr(residency_module, "fetch_model", fetch)
    monkeypatch.setattr(ModelText, "load", classmethod(lambda cls, reference, offline=False: object()))
    return Books()
