"""`EngineDevices`: the devices of an engine, each with an arena of its own."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import torch

from antiphon.engine.kv.arena import SlabArena
from antiphon.models.base.model import Model
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_memory import kv_bytes_for, reserve_bytes, workspace_bytes
from antiphon.runtime.loading.memory_budget import default_budget
from antiphon.runtime.slots.arena import Arena
from antiphon.runtime.slots.decoder import cache_layouts


class EngineDevice:
    """A device and the KV arena of its models.

    The CPU's arena is reserved at once. Another device's arena is reserved for the first model with a cache, after its
    weights are loaded, in the memory that they leave; it is freed with the last model.
    """

    def __init__(self, device: Device, config: EngineConfig) -> None:
        self.device = device
        self._config = config
        self._lock = threading.Lock()
        self._models: set[str] = set()
        self._arena = Arena.allocate(config, device) if device.is_cpu else None
        #: Memory budget for weights, keys and values together.
        self.budget_bytes = default_budget() if device.is_cpu else device.free_bytes() - reserve_bytes(device)

    @property
    def name(self) -> str:
        return self.device.name

    @property
    def books(self) -> SlabArena | None:
        """Slab allocator of the arena; None until the arena is reserved."""
        arena = self._arena
        return None if arena is None else arena.books

    def acquire(self, name: str, model: Model, draft: Model | None = None) -> Arena:
        """Register a model whose weights are on the device, and return the arena for it and its draft model.

        The arena is empty if no model on the device has a cache. Call `release` when the model is unloaded.
        """
        with self._lock:
            present = {name, *self._models}
            models = [model] if draft is None else [model, draft]
            decoders = [decoder for one in models if (decoder := one.part(TokenDecoder)) is not None]
            if self._arena is None and decoders:
                self.trim()  # memory that the allocator caches would count as used
                sizes = self._config.sizes(self.device)
                workspace = sum(workspace_bytes(one, sizes) for one in models)
                expected = self._config.expected_weights.items()
                coming = sum(size for other, size in expected if other not in present)
                size = kv_bytes_for(self.device, self._config, workspace, coming)
                groups = [group for decoder in decoders for group in decoder.cache_groups]
                block = max(layout.block_bytes for layout in cache_layouts(groups, self._config, sizes))
                self._arena = Arena.allocate(self._config, self.device, size, block)
            self._models = present
            return self._arena or Arena.empty(self.device)

    def release(self, name: str) -> None:
        """Remove an unloaded model, and return the memory of free slabs to the system."""
        with self._lock:
            self._models.discard(name)
            if not self._models and not self.device.is_cpu:
                self._arena = None
            if self._arena is not None:
                self._arena.release_free_pages()

    def figures(self) -> dict[str, int]:
        """Return the arena's total bytes and bytes lent to models, and the device's total and free bytes."""
        books = self.books
        return {
            "total_bytes": 0 if books is None else books.total_bytes,
            "lent_bytes": 0 if books is None else books.lent_bytes,
            "memory_bytes": self.device.limits.total_bytes,
            "free_bytes": self.device.free_bytes(),
        }

    def close(self) -> None:
        """Release the arena; all models must be unloaded."""
        with self._lock:
            self._arena = None
            self._models = set()
        self.trim()

    def trim(self) -> None:
        """Return unused memory that the CUDA allocator caches to the device."""
        if self.device.torch.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


class EngineDevices:
    """Devices by name, for any thread. The engine's own is opened at once, the others on first use."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._opened: dict[str, EngineDevice] = {}
        self.default = self.get(None)

    def get(self, name: str | None) -> EngineDevice:
        """Return the device of that name, or the engine's own for None. Raise UnsupportedError if it cannot be used."""
        return self.of(self._config.open_device(name))

    def of(self, device: Device) -> EngineDevice:
        """Return the `EngineDevice` of a device, created on first use."""
        with self._lock:
            found = self._opened.get(device.name)
            if found is None:
                found = self._opened[device.name] = EngineDevice(device, self._config)
            return found

    def __iter__(self) -> Iterator[EngineDevice]:
        with self._lock:
            return iter(list(self._opened.values()))

    def trim(self) -> None:
        for device in self:
            device.trim()

    def close(self) -> None:
        for device in self:
            device.close()
