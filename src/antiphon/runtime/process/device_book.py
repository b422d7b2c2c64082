"""`DeviceBook`: devices of an engine process as it reports them. The server itself opens no device."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.device_names import AUTO, CPU
from antiphon.runtime.process.messages import DeviceMemory, Devices


class DeviceBook:
    """Reported devices. Until the process has reported, the CPU is the only device."""

    def __init__(self) -> None:
        self._memory: dict[str, DeviceMemory] = {}
        self._default = self._auto = CPU

    def take(self, message: Devices) -> None:
        self._memory = {device.name: device for device in message.items}
        self._default, self._auto = message.default, message.auto

    def name_of(self, asked: str | None) -> str:
        """Return the device of a model that requests this one; None stands for the engine's own."""
        if asked is None:
            return self._default
        if asked == AUTO:
            return self._auto
        return "cuda:0" if asked == "cuda" else asked

    def memory(self, name: str) -> DeviceMemory | None:
        """Return the memory of a device, or None if the engine has not opened it."""
        return self._memory.get(name)

    def __iter__(self) -> Iterator[DeviceMemory]:
        return iter(self._memory.values())
