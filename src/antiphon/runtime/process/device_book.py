"""`DeviceBook`: the devices of an engine process as it reports them. The server itself opens none."""

from __future__ import annotations

from collections.abc import Iterator

from antiphon.device_names import AUTO, CPU
from antiphon.runtime.process.messages import DeviceMemory, Devices


class DeviceBook:
    """Until the process has reported, there is the CPU."""

    def __init__(self) -> None:
        self._memory: dict[str, DeviceMemory] = {}
        self._default = self._auto = CPU

    def take(self, message: Devices) -> None:
        self._memory = {device.name: device for device in message.items}
        self._default, self._auto = message.default, message.auto

    def name_of(self, asked: str | None) -> str:
        """The device that a model gets which asks for this one; None is the engine's own."""
        if asked is None:
            return self._default
        if asked == AUTO:
            return self._auto
        return "cuda:0" if asked == "cuda" else asked

    def memory(self, name: str) -> DeviceMemory | None:
        """Of a device that the engine has opened."""
        return self._memory.get(name)

    def __iter__(self) -> Iterator[DeviceMemory]:
        return iter(self._memory.values())
