"""`MemoryBudget`: the bytes that weights and the KV cache may take together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from antiphon.device_names import CPU
from antiphon.errors import MemoryBudgetError, MemoryBusyError
from antiphon.runtime.residency.resident import Resident


@dataclass(frozen=True)
class MemoryBudget:
    """Weights of all resident models of a device and its cache's arena never exceed `total_bytes`."""

    total_bytes: int
    kv_bytes: int
    device: str = CPU

    @property
    def _name(self) -> str:
        return "memory budget" if self.device == CPU else f"memory budget of {self.device}"

    @property
    def room(self) -> int:
        """For weights."""
        return self.total_bytes - self.kv_bytes

    def check_fits(self, model: Resident, size: int) -> None:
        """Reject a model whose weights would not fit alone."""
        if size > self.room:
            raise MemoryBudgetError(
                f"model {model.name!r} needs {size:,} bytes for its weights and {self.kv_bytes:,} for the KV cache; "
                f"the {self._name} is {self.total_bytes:,} bytes"
            )

    def idle_models(self, model: Resident, size: int, models: Collection[Resident], evict: bool) -> list[Resident]:
        """Models that may be unloaded for this one, least recently used first; an error if that cannot be enough.

        `models` are those of the device.
        """
        self.check_fits(model, size)
        others = [other for other in models if other is not model]
        needed = {id(other.base) for other in others if other.is_pinned and other.charged_bytes}  # with their adapters
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
    """What the budget is charged with for weights."""
    return sum(model.charged_bytes for model in models)
