"""Memory of keys and values: bytes per token and per request, and the number of requests that fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from antiphon import ops
from antiphon.device_names import CPU
from antiphon.engine.kv.arena import SlabArena
from antiphon.engine.kv.manager import KVManager
from antiphon.errors import InvalidRequestError
from antiphon.models.base.parts import TokenDecoder
from antiphon.ops import CacheKind
from antiphon.runtime.analysis.machine import Machine
from antiphon.runtime.loading.config import PAGE_TYPES, EngineConfig
from antiphon.runtime.slots.decoder import cache_layouts, group_specs


@dataclass(frozen=True)
class PageMemory:
    """Memory of pages of one type. `num_fitting` requests of the analyzed length fit; None if the memory is unknown."""

    type: str
    bytes_per_token: float
    bytes_per_request: int
    num_fitting: int | None


def page_memory(
    decoder: TokenDecoder, machine: Machine, config: EngineConfig, kv_bytes: int | None, length: int
) -> Iterator[PageMemory]:
    """Yield the memory of each type of pages that the device supports and that suits the model's heads.

    Requests have `length` tokens.
    """
    for name, dtype in PAGE_TYPES.items():
        if machine.is_cpu and not ops.stores_pages(dtype, CPU):
            continue
        sizes = replace(machine.sizes, key_type=name, value_type=name)
        try:
            layouts = cache_layouts(decoder.cache_groups, config, sizes)
        except InvalidRequestError:
            continue
        largest = max(layout.block_bytes for layout in layouts)
        slab_bytes = 0 if kv_bytes is None else config.slab_size(kv_bytes, 0 if machine.is_cpu else largest)
        # Without a budget, or if a block is too large for its slabs, one block must fit the arena.
        books = SlabArena(kv_bytes or 0, max(slab_bytes, largest))
        manager = KVManager(books, group_specs(layouts), config.block_tokens)
        cross_tokens = 0 if decoder.cross is None else decoder.cross.num_states
        held = manager.held_blocks(length, cross_tokens)
        fitting = 0 if largest > slab_bytes else manager.num_fitting(length, cross_tokens)
        yield PageMemory(
            name,
            sum(layout.bytes_per_token for layout in layouts if layout.group.kind is not CacheKind.CROSS),
            sum(count * layout.block_bytes for count, layout in zip(held, layouts, strict=True)),
            None if kv_bytes is None else fitting,
        )
