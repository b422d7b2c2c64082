"""`EngineDevices`: the devices of an engine, each with an arena of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from antiphon.engine.kv.arena import SlabArena
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.device_memory import kv_bytes_for
from antiphon.runtime.slots.arena import Arena


class EngineDevice:
    """A device with the memory for keys and values of its models.

    That of the CPU is reserved at once. That of another device is reserved when the first model needs it, whose
    weights are on the device by then: it takes what they leave.
    """

    def __init__(self, device: Device, config: EngineConfig) -> None:
        self.device = device
        self.config = config
        self._lock = threading.Lock()
        self._arena = Arena.allocate(config, device) if device.is_cpu else None

    @property
    def name(self) -> str:
        return self.device.name

    @property
    def books(self) -> SlabArena | None:
        """Of the arena, if it is reserved."""
        return None if self._arena is None else self._arena.books

    def arena(self, workspace_bytes: int = 0) -> Arena:
        """The arena; where it is reserved only now, `workspace_bytes` stay free for the steps of the model."""
        with self._lock:
            if self._arena is None:
                size = kv_bytes_for(self.device, self.config, workspace_bytes)
                self._arena = Arena.allocate(self.config, self.device, size)
            return self._arena

    def release_free_pages(self) -> None:
        if self._arena is not None:
            self._arena.release_free_pages()


class EngineDevices:
    """The devices by name. Used from any thread. The engine's own is opened at once, others when a model asks."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._opened: dict[str, EngineDevice] = {}
        self.default = self.get(None)

    def get(self, name: str | None) -> EngineDevice:
        """The device of that name, or the engine's own. One that cannot be used is an `UnsupportedError`."""
        return self.of(self._config.open_device(name))

    def of(self, device: Device) -> EngineDevice:
        """The engine's own view of a device, which a model may have been loaded onto before."""
        with self._lock:
            found = self._opened.get(device.name)
            if found is None:
                found = self._opened[device.name] = EngineDevice(device, self._config)
            return found

    def __iter__(self) -> Iterator[EngineDevice]:
        with self._lock:
            return iter(list(self._opened.values()))
