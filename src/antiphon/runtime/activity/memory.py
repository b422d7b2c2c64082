"""`MemoryReader`: memory of an engine by device, model and kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from antiphon.device_names import CPU
from antiphon.engine.core import EngineCore
from antiphon.models.base.model import Model
from antiphon.runtime.activity.cache_map import held_bytes
from antiphon.runtime.loading.loading import LoadedModel
from antiphon.runtime.loading.process_memory import resident_bytes
from antiphon.runtime.slots.devices import EngineDevice
from antiphon.runtime.slots.resident import slot_names


class MemoryReader:
    """Reader of an engine's memory, for the engine's thread. `models` returns the loaded models."""

    def __init__(
        self, devices: Iterable[EngineDevice], core: EngineCore, models: Callable[[], Iterable[LoadedModel]]
    ) -> None:
        self._devices = devices
        self._core = core
        self._models = models
        self._weights: dict[str, tuple[Model, int]] = {}  # counted once per load

    def read(self) -> dict[str, Any]:
        """Return, for each device, the bytes of its arena and of its models' weights and caches.

        `other_bytes` is other use of the device, or of the process on the CPU: workspace, code and libraries.
        """
        models = {loaded.name: loaded for loaded in self._models()}  # an adapter has the name of its model
        self._weights = {name: self._count(loaded) for name, loaded in models.items()}
        return {device.name: self._device(device, list(models.values())) for device in self._devices}

    def _count(self, loaded: LoadedModel) -> tuple[Model, int]:
        known = self._weights.get(loaded.name)
        return known if known is not None and known[0] is loaded.model else (loaded.model, loaded.model.weight_bytes())

    def _device(self, device: EngineDevice, models: list[LoadedModel]) -> dict[str, Any]:
        own = [loaded for loaded in models if loaded.device.name == device.name]
        cards = {loaded.name: self._model(loaded) for loaded in own}
        weights = sum(card["weight_bytes"] for card in cards.values())
        figures = device.figures()
        if device.name == CPU:
            # Pages that no model holds are not backed by memory.
            used, cache = resident_bytes(), figures["lent_bytes"]
        else:
            used, cache = figures["memory_bytes"] - figures["free_bytes"], figures["total_bytes"]
        return {
            "memory_bytes": figures["memory_bytes"],
            "used_bytes": used,
            "kv_bytes": figures["total_bytes"],
            "kv_lent_bytes": figures["lent_bytes"],
            "other_bytes": max(0, used - weights - cache),
            "models": cards,
        }

    def _model(self, loaded: LoadedModel) -> dict[str, int]:
        slots = (self._core.slots.get(name) for name in slot_names(loaded.name, loaded.model))
        kv = sum(held_bytes(slot) for slot in slots if slot is not None)
        return {"weight_bytes": self._weights[loaded.name][1], "kv_bytes": kv}
