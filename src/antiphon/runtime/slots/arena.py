"""`Arena`: the memory for keys and values of all models."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from antiphon import ops
from antiphon.engine.kv.arena import SlabArena
from antiphon.errors import MemoryBudgetError
from antiphon.runtime.loading.config import EngineConfig
from antiphon.runtime.loading.memory_budget import check_memory
from antiphon.runtime.loading.process_memory import release_pages


@dataclass(frozen=True)
class Arena:
    """The memory and the allocator of its slabs."""

    books: SlabArena
    memory: Tensor

    @classmethod
    def allocate(cls, config: EngineConfig) -> Arena:
        check_memory(config.kv_bytes)
        books = SlabArena(config.kv_bytes, config.slab_size())
        try:
            return cls(books, ops.allocate_arena(books.total_bytes))
        except MemoryError as error:
            asked = books.total_bytes >> 20
            raise MemoryBudgetError(f"the system refused {asked:,} MiB for keys and values; ask for less") from error

    def release_free_pages(self) -> None:
        """Return the memory of free slabs to the system; it reads as zero when it is used again."""
        if self.memory.device.type == "cpu":
            base = self.memory.data_ptr()
            for offset, size in self.books.free_spans():
                release_pages(base + offset, size)
