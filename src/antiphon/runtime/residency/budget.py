"""`MemoryBudget`: maximum bytes of a device's weights and KV cache together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from antiphon.device_names import CPU
from antiphon.errors import MemoryBudgetError, MemoryBusyError
from antiphon.runtime.residency.resident import Resident


@dataclass(frozen=True)
class MemoryBudget:
    """Limit of a device's memory: the weights of all resident models and the arena never exceed `total_bytes`."""

    total_bytes: int
    kv_bytes: int
    device: str = CPU

    @property
    def _name(self) -> str:
        return "memory budget" if self.device == CPU else f"memory budget of {self.device}"

    @property
    def room(self) -> int:
        """Bytes for weights."""
        return self.total_bytes - self.kv_bytes

    def check_fits(self, model: Resident, size: int) -> None:
        """Reject a model whose weights do not fit even without other models."""
        if size > self.room:
            raise MemoryBudgetError(
                f"model {model.name!r} needs {size:,} bytes for its weights and {self.kv_bytes:,} for the KV cache; "
                f"the {self._name} is {self.total_bytes:,} bytes"
            )

    def idle_models(self, model: Resident, size: int, models: Collection[Resident], evict: bool) -> list[Resident]:
        """Return idle models that may be unloaded for this one, least recently used first.

        `models` are those of the device. Raises `MemoryBusyError` if unloading all of them would not be enough.
        """
        self.check_fits(model, size)
        others = [other for other in models if other is not model]
        # models whose pinned adapters are loaded
        needed = {id(other.base) for other in others if other.is_pinned and other.charged_bytes}
        may_go = (other for other in others if evict and other.is_idle and id(other) not in needed)
        idle = sorted(may_go, key=lambda other: other.turn)
        staying = charged_bytes(models) - charged_bytes(idle)
        if staying + size > self.room:
            names = [other.name for other in others if other.charged_bytes and other not in idle]
            raise MemoryBusyError(
                f"model {model.name!r} needs {size:,} bytes for its weights; {max(0, self.room - staying):,} of the "
                f"{self._name} of {self.total_bytes:,} bytes are free beside {', '.join(names)}"
            )
        return idle


def charged_bytes(models: Collection[Resident]) -> int:
    """Return the bytes that the budget is charged with for weights."""
    return sum(model.charged_bytes for model in models)
