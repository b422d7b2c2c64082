"""`Arena`: the memory for keys and values of all models of a device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon import ops
from antiphon.engine.kv.arena import UNIT_BYTES, SlabArena
from antiphon.errors import MemoryBudgetError
from antiphon.ops import Device
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.memory_budget import check_memory
from antiphon.runtime.loading.process_memory import release_pages


@dataclass(frozen=True)
class Arena:
    """KV arena of a device: its memory and the allocator of its slabs."""

    books: SlabArena
    memory: Tensor

    @classmethod
    def allocate(
        cls, config: EngineConfig, device: Device | None = None, kv_bytes: int | None = None, block_bytes: int = 0
    ) -> Arena:
        """Allocate `kv_bytes`, or the configured size, on `device` (default: the CPU), in slabs that fit `block_bytes`.

        Raise MemoryBudgetError if the memory is not available.
        """
        size = kv_bytes or config.kv_bytes or config.cpu_kv_bytes
        place = torch.device("cpu") if device is None else device.torch
        if place.type == "cpu":
            check_memory(size)
        books = SlabArena(size, config.slab_size(size, block_bytes))
        try:
            return cls(books, ops.allocate_arena(books.total_bytes, place))
        except (MemoryError, torch.OutOfMemoryError) as error:
            asked = f"{books.total_bytes >> 20:,} MiB for keys and values"
            free = "" if device is None or device.is_cpu else f"; {device.free_bytes() >> 20:,} MiB are free"
            where = "the system" if place.type == "cpu" else str(place)
            raise MemoryBudgetError(f"{where} refused {asked}{free}; ask for less") from error

    @classmethod
    def empty(cls, device: Device) -> Arena:
        """Return an arena of zero bytes, for models that cache nothing."""
        return cls(SlabArena(0, UNIT_BYTES), torch.empty(0, dtype=torch.uint8, device=device.torch))

    def release_free_pages(self) -> None:
        """Return the CPU pages of free slabs to the operating system; they read as zero when they are used again."""
        if self.memory.device.type == "cpu":
            base = self.memory.data_ptr()
            for offset, size in self.books.free_spans():
                release_pages(base + offset, size)
